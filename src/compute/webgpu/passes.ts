// Runs forward passes, one at a time: writes a batch for the kernels, submits their commands, and reads results back.

import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Batch } from '../backend.ts';
import type { Gpu } from './gpu.ts';
import { inSlowTurns, StepTimer } from './gpu-wait.ts';
import type { ImageRows } from './layers/image-rows.ts';
import type { Operation } from './operation.ts';
import { type AttentionShape, planStep, type StepCounts, type StepVision } from './plan-step.ts';
import type { Programs } from './programs.ts';
import { RANGE_BYTES, type Scratch } from './scratch.ts';

const OPERATIONS_AT_ONCE = 48;

/** A result that comes this soon was there already. */
const AT_ONCE_MS = 0.5;

export interface Forward {
  readonly operations: readonly Operation[];
  readonly sample: Operation;
  readonly programs: Programs;
  /** Of attentions: a step has a plan for each. */
  readonly shapes: readonly AttentionShape[];
  /** Where the model sees. */
  readonly vision: (StepVision & { readonly rows: ImageRows }) | undefined;
}

export interface Reading {
  readonly source: GPUBuffer;
  readonly byteLength: number;
}

interface Wanted {
  readonly readings: readonly Reading[];
  readonly samples: boolean;
}

/** All that the commands of a pass depend on; kernels read the rest from the step's buffer. */
interface Commands extends Wanted {
  readonly counts: StepCounts;
}

export class Passes {
  readonly #gpu: Gpu;
  readonly #scratch: Scratch;
  readonly #forward: Forward;
  readonly #timer = new StepTimer();
  /** The last results are still mapped. */
  #mapped = false;
  #failure: Error | undefined;
  #ready: { readonly commands: Commands; readonly buffers: GPUCommandBuffer[] } | undefined;

  constructor(gpu: Gpu, scratch: Scratch, forward: Forward) {
    this.#gpu = gpu;
    this.#scratch = scratch;
    this.#forward = forward;
    gpu.device.onuncapturederror = ({ error }) => {
      this.#failure ??= new Error(`the GPU refused a command: ${error.message}`);
    };
    void gpu.device.lost.then(({ message }) => {
      this.#failure = new Error(`the GPU was lost: ${message}`);
    });
  }

  /** Gives one buffer for each reading, valid until the next pass. */
  async run(batch: Batch, wanted: Wanted): Promise<ArrayBuffer[]> {
    this.#unmap();
    const { step, stepWords } = this.#scratch;
    const { queue } = this.#gpu.device;
    const { shapes, vision } = this.#forward;
    const { counts, words } = planStep(batch, shapes, vision);
    if (words.length > stepWords) {
      throw new Error(`a step of ${words.length} words is larger than its buffer of ${stepWords}`);
    }
    queue.writeBuffer(step, 0, words);
    vision?.rows.write(this.#gpu.device, this.#scratch, batch);
    const commands: Commands = { ...wanted, counts };
    const buffers = this.#take(commands) ?? this.#encode(commands);
    const began = performance.now();
    for (const buffer of buffers) queue.submit([buffer]);
    const lengths = wanted.readings.map(({ byteLength }) => byteLength);
    const reads = lengths.some((byteLength) => byteLength > 0);
    // Most steps are like the one before: while this one runs, the commands of the next are encoded.
    if (reads) this.#ready = { commands, buffers: this.#encode(commands) };
    const kind = JSON.stringify([counts, lengths]);
    const sleepMs = this.#timer.sleepMs(kind, performance.now() - began);
    if (sleepMs > 0) await sleep(sleepMs);
    const woke = performance.now();
    const bytes = reads ? await this.#read(lengths) : await this.#finish(lengths);
    const ended = performance.now();
    this.#timer.record(kind, ended - began, sleepMs > 0 && ended - woke < AT_ONCE_MS);
    return bytes;
  }

  /** Buffers were replaced: commands encoded for the old ones are void. */
  rebind(): void {
    this.#ready = undefined;
    for (const operation of this.#forward.operations) operation.rebind();
  }

  /** Rows of a buffer as the last pass has left it, side by side; valid until the next. */
  async readRows(source: GPUBuffer, rowBytes: number, rows: readonly number[]): Promise<ArrayBuffer> {
    this.#unmap();
    const encoder = this.#gpu.device.createCommandEncoder();
    for (const [place, row] of rows.entries()) {
      encoder.copyBufferToBuffer(source, row * rowBytes, this.#scratch.readback, place * rowBytes, rowBytes);
    }
    this.#gpu.device.queue.submit([encoder.finish()]);
    const [bytes] = await this.#read([rows.length * rowBytes]);
    return bytes as ArrayBuffer;
  }

  /** Commands that were encoded ahead, if they are these. */
  #take(commands: Commands): GPUCommandBuffer[] | undefined {
    const ready = this.#ready;
    this.#ready = undefined;
    return ready !== undefined && isSame(ready.commands, commands) ? ready.buffers : undefined;
  }

  /** In several buffers, so that the GPU starts with the first while Dawn translates the next. */
  #encode({ counts, readings, samples }: Commands): GPUCommandBuffer[] {
    const { operations, sample, programs } = this.#forward;
    const all = samples ? [...operations, sample] : operations;
    const buffers: GPUCommandBuffer[] = [];
    for (let first = 0; first < all.length; first += OPERATIONS_AT_ONCE) {
      const encoder = this.#gpu.device.createCommandEncoder();
      const pass = encoder.beginComputePass();
      for (const operation of all.slice(first, first + OPERATIONS_AT_ONCE)) {
        operation.encode(programs, pass, counts);
      }
      pass.end();
      const isLast = first + OPERATIONS_AT_ONCE >= all.length;
      if (isLast) this.#copyOut(encoder, readings);
      buffers.push(encoder.finish());
    }
    return buffers;
  }

  #copyOut(encoder: GPUCommandEncoder, readings: readonly Reading[]): void {
    const places = placesOf(readings.map(({ byteLength }) => byteLength));
    for (const [index, { source, byteLength }] of readings.entries()) {
      if (byteLength === 0) continue;
      encoder.copyBufferToBuffer(source, 0, this.#scratch.readback, places[index] as number, byteLength);
    }
  }

  /** Waits for what was submitted, here or beside it. */
  async settle(): Promise<void> {
    await inSlowTurns(this.#gpu.device.queue.onSubmittedWorkDone());
    if (this.#failure !== undefined) throw this.#failure;
  }

  async #finish(lengths: readonly number[]): Promise<ArrayBuffer[]> {
    await this.settle();
    return lengths.map(() => new ArrayBuffer(0));
  }

  async #read(lengths: readonly number[]): Promise<ArrayBuffer[]> {
    const { readback } = this.#scratch;
    const places = placesOf(lengths);
    try {
      // GPUMapMode.READ
      await inSlowTurns(readback.mapAsync(1, 0, places.at(-1)));
    } catch (error) {
      throw this.#failure ?? error;
    }
    this.#mapped = true;
    if (this.#failure !== undefined) throw this.#failure;
    return lengths.map((byteLength, index) =>
      byteLength === 0 ? new ArrayBuffer(0) : readback.getMappedRange(places[index], byteLength),
    );
  }

  #unmap(): void {
    if (this.#mapped) this.#scratch.readback.unmap();
    this.#mapped = false;
  }
}

/** Where readings start in the buffer, and where the last ends. */
function placesOf(lengths: readonly number[]): number[] {
  const places = [0];
  for (const byteLength of lengths) {
    places.push((places.at(-1) as number) + RANGE_BYTES * Math.ceil(byteLength / RANGE_BYTES));
  }
  return places;
}

function isSame(a: Commands, b: Commands): boolean {
  return (
    a.readings.length === b.readings.length &&
    a.readings.every(({ source, byteLength }, index) => {
      const other = b.readings[index] as Reading;
      return source === other.source && byteLength === other.byteLength;
    }) &&
    a.samples === b.samples &&
    isDeepStrictEqual(a.counts, b.counts)
  );
}
