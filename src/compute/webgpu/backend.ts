// The `webgpu` backend: the Backend contract over kernels in WGSL.

import { setTimeout as sleep } from 'node:timers/promises';
import { machineLimits } from '../../machine/limits.ts';
import type { ModelSpec } from '../../model/spec.ts';
import type { SampleResult, SampleRow, SampleRows } from '../../sampling/sample-row.ts';
import { sampleRows } from '../../sampling/sampler.ts';
import type { WeightSource } from '../../weights/weight-source.ts';
import type { Backend, BackendOptions, Batch, KvType, StepResult } from '../backend.ts';
import { BlockUses, checkBatch } from '../batch.ts';
import { loadAddon } from '../cpu/binding.ts';
import { createNativeSampler } from '../cpu/sample-rows.ts';
import { HeldBlocks } from '../held-blocks.ts';
import { fileMatrixBytes, weightBytes } from '../memory.ts';
import { finishDraws } from './finish-draws.ts';
import { buildForward } from './forward.ts';
import { type Gpu, openGpu } from './gpu.ts';
import { manyQueries } from './kernels/attend-many.ts';
import { drawThreads, firstCandidatesKernel } from './kernels/first-candidates.ts';
import { GpuMemory } from './memory.ts';
import { Operation } from './operation.ts';
import { startPacking } from './pack-workers.ts';
import { Patience } from './patience.ts';
import { planDraws } from './plan-draws.ts';
import { type AttentionShape, planStep, type StepCounts } from './plan-step.ts';
import { Programs } from './programs.ts';
import { allocateScratch, type Scratch } from './scratch.ts';
import { splitBatch } from './split-batch.ts';

export interface WebGpuOptions extends BackendOptions {
  readonly kvType?: KvType;
  /** One of several GPUs by name, or one that is open and stays so. */
  readonly gpu?: string | Gpu;
}

/** Operations of one command buffer. */
const OPERATIONS_AT_ONCE = 48;
/** Workgroups of attention that keep a large GPU busy. */
const BUSY_WORKGROUPS = 1024;
/** Workgroups of many queries each that do so well enough. */
const MANY_WORKGROUPS = 64;

export async function createWebGpuBackend(
  spec: ModelSpec,
  weights: WeightSource,
  options: WebGpuOptions,
): Promise<Backend> {
  const given = typeof options.gpu === 'object' ? { ...options.gpu, close: () => {} } : undefined;
  const gpu = given ?? (await openGpu(options.gpu as string | undefined));
  try {
    return await loadBackend(gpu, spec, weights, options);
  } catch (error) {
    gpu.close();
    throw error;
  }
}

async function loadBackend(
  gpu: Gpu,
  spec: ModelSpec,
  weights: WeightSource,
  options: WebGpuOptions,
): Promise<Backend> {
  const memory = new GpuMemory(gpu.device);
  const { bindingBytes } = gpu.info.limits;
  const scratch = await allocateScratch(memory, spec, options.kvType ?? 'f16', bindingBytes);
  const kv: GPUBuffer[] = [];
  for (let layer = 0; layer < spec.layers.length; layer++) {
    kv.push(await memory.storage('K/V', 4 * scratch.kv.blockWords * options.blockCount));
  }
  const totalBytes = weightBytes(spec, weights, fileMatrixBytes);
  let loaded = 0;
  const onBytes = (bytes: number) => {
    loaded += bytes;
    options.onProgress?.(Math.min(1, loaded / totalBytes));
  };
  const packing = startPacking(totalBytes, machineLimits().cores);
  const loader = { memory, packing, weights, bindingBytes, onBytes };
  const forward = buildForward(spec, loader, scratch, kv, gpu.info.limits);
  const operations = await forward.finally(() => packing.close());
  const draw = drawOperation(scratch, gpu);
  const programs = Programs.of(gpu.device);
  // A processor that plays a GPU compiles slowly: there each kernel waits until it is needed.
  if (!gpu.info.software) for (const operation of [...operations, draw]) operation.compile(programs);
  await programs.ready();
  await gpu.device.queue.onSubmittedWorkDone();
  return new WebGpuBackend(
    { gpu, memory },
    spec,
    scratch,
    { operations, draw, programs },
    options.blockCount,
  );
}

function drawOperation(scratch: Scratch, { info }: Gpu): Operation {
  const { draws, logits, saved, found } = scratch;
  const variant = {
    text: firstCandidatesKernel(drawThreads(info.limits.workgroupThreads)),
    grid: ({ wanted }: StepCounts) => [wanted, 1] as const,
  };
  return new Operation('draw', [variant], [draws, logits, saved, found]);
}

interface Place {
  readonly gpu: Gpu;
  readonly memory: GpuMemory;
}

interface Forward {
  readonly operations: readonly Operation[];
  readonly draw: Operation;
  readonly programs: Programs;
}

/** All that the commands of a pass depend on; what else is new in a step, kernels read from its buffer. */
interface Commands {
  readonly counts: StepCounts;
  /** What is read back. */
  readonly source: GPUBuffer;
  readonly byteLength: number;
  readonly draws: boolean;
}

class WebGpuBackend implements Backend {
  readonly name = 'webgpu';
  readonly device: string;
  readonly blockCount: number;
  readonly sampleRows: SampleRows;
  readonly #gpu: Gpu;
  readonly #memory: GpuMemory;
  readonly #spec: ModelSpec;
  readonly #scratch: Scratch;
  readonly #forward: Forward;
  readonly #attention: AttentionShape;
  readonly #patience = new Patience();
  readonly #uses: BlockUses;
  readonly #held: HeldBlocks;
  #running = false;
  #closed = false;
  /** What was read back last is still being read. */
  #mapped = false;
  #failure: Error | undefined;
  #ready: { readonly commands: Commands; readonly buffers: GPUCommandBuffer[] } | undefined;

  constructor(
    { gpu, memory }: Place,
    spec: ModelSpec,
    scratch: Scratch,
    forward: Forward,
    blockCount: number,
  ) {
    this.sampleRows = hostSampler();
    this.device = gpu.info.name;
    this.#gpu = gpu;
    this.#memory = memory;
    this.#spec = spec;
    this.#scratch = scratch;
    this.#forward = forward;
    this.#attention = attentionShape(spec, scratch, gpu);
    this.blockCount = blockCount;
    this.#uses = new BlockUses(blockCount);
    this.#held = new HeldBlocks(blockCount);
    gpu.device.onuncapturederror = ({ error }) => {
      this.#failure ??= new Error(`the GPU refused a command: ${error.message}`);
    };
    void gpu.device.lost.then(({ message }) => {
      this.#failure = new Error(`the GPU was lost: ${message}`);
    });
  }

  async step(batch: Batch, rows?: readonly SampleRow[]): Promise<StepResult> {
    if (this.#closed) throw new Error('the backend is closed');
    if (this.#running) throw new Error('a step is still running; await it before the next');
    const { vocabSize, contextLength } = this.#spec;
    if (rows !== undefined && rows.length !== batch.logitRows.length) {
      throw new Error(`${rows.length} draws were told for ${batch.logitRows.length} rows of logits`);
    }
    checkBatch(batch, { blockCount: this.blockCount, vocabSize, contextLength }, this.#uses);
    this.#held.take(batch);
    this.#running = true;
    try {
      const parts = splitBatch(batch, this.#scratch);
      return rows === undefined
        ? { logits: await this.#logits(parts, batch.logitRows.length) }
        : { logits: new Float32Array(0), drawn: await this.#draw(parts, rows) };
    } finally {
      this.#running = false;
      if (this.#closed) this.#giveBack();
    }
  }

  releaseBlocks(blocks: Int32Array): void {
    if (this.#running) throw new Error('a step is still running; release blocks between steps');
    this.#held.release(blocks);
  }

  /** Gives the memory back, at once or as soon as the running step ends. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    if (!this.#running) this.#giveBack();
  }

  #giveBack(): void {
    this.#memory.release();
    this.#gpu.close();
  }

  async #logits(parts: readonly Batch[], rows: number): Promise<Float32Array> {
    const { vocabSize } = this.#spec;
    const [only] = parts;
    // Read where they lie: they are many, and valid until the next step.
    if (parts.length === 1 && only !== undefined) {
      return new Float32Array(await this.#pass(only, this.#scratch.logits, 4 * rows * vocabSize, false));
    }
    const logits = new Float32Array(rows * vocabSize);
    let at = 0;
    for (const part of parts) {
      const wanted = part.logitRows.length * vocabSize;
      const bytes = await this.#pass(part, this.#scratch.logits, 4 * wanted, false);
      logits.set(new Float32Array(bytes), at);
      at += wanted;
    }
    return logits;
  }

  async #draw(parts: readonly Batch[], rows: readonly SampleRow[]): Promise<SampleResult[]> {
    const results: SampleResult[] = [];
    for (const part of parts) {
      const own = rows.slice(results.length, results.length + part.logitRows.length);
      results.push(...(await this.#drawPart(part, own)));
    }
    return results;
  }

  async #drawPart(part: Batch, rows: readonly SampleRow[]): Promise<SampleResult[]> {
    const { vocabSize } = this.#spec;
    const { draws, drawWords, found } = this.#scratch;
    const planned = planDraws(rows, vocabSize, drawWords);
    this.#gpu.device.queue.writeBuffer(draws, 0, planned.words);
    const answer = await this.#pass(part, found, planned.byteLength, true);
    const results = finishDraws(answer, rows, planned, vocabSize);
    const open = [...results.keys()].filter((index) => results[index] === undefined);
    if (open.length === 0) return results as SampleResult[];
    const openRows = open.map((index) => rows[index] as SampleRow);
    const drawn = this.sampleRows(await this.#logitsOf(open), vocabSize, openRows);
    return results.map((result, index) => result ?? (drawn[open.indexOf(index)] as SampleResult));
  }

  /** Rows of logits of the last pass; valid until the next. */
  async #logitsOf(rows: readonly number[]): Promise<Float32Array> {
    const { logits, readback } = this.#scratch;
    const rowBytes = 4 * this.#spec.vocabSize;
    this.#unmap();
    const encoder = this.#gpu.device.createCommandEncoder();
    for (const [place, row] of rows.entries()) {
      encoder.copyBufferToBuffer(logits, row * rowBytes, readback, place * rowBytes, rowBytes);
    }
    this.#gpu.device.queue.submit([encoder.finish()]);
    return new Float32Array(await this.#read(rows.length * rowBytes));
  }

  /** One forward pass; the first bytes of a buffer it has filled, valid until the next. */
  async #pass(batch: Batch, source: GPUBuffer, byteLength: number, draws: boolean): Promise<ArrayBuffer> {
    this.#unmap();
    const { step, stepWords } = this.#scratch;
    const { queue } = this.#gpu.device;
    const { counts, words } = planStep(batch, this.#attention);
    if (words.length > stepWords) {
      throw new Error(`a step of ${words.length} words is larger than its buffer of ${stepWords}`);
    }
    queue.writeBuffer(step, 0, words);
    const wanted: Commands = { counts, source, byteLength, draws };
    const ready =
      this.#ready !== undefined && isSame(this.#ready.commands, wanted) ? this.#ready.buffers : undefined;
    this.#ready = undefined;
    const buffers = ready ?? this.#encode(wanted);
    const began = performance.now();
    for (const buffer of buffers) queue.submit([buffer]);
    // Most steps are like the one before: while this one runs, the next one's commands are written.
    if (byteLength > 0) this.#ready = { commands: wanted, buffers: this.#encode(wanted) };
    const kind = JSON.stringify([counts, byteLength]);
    const restMs = this.#patience.restMs(kind, performance.now() - began);
    if (restMs > 0) await sleep(restMs);
    const bytes = byteLength === 0 ? await this.#finish() : await this.#read(byteLength);
    this.#patience.learn(kind, performance.now() - began);
    return bytes;
  }

  /** In several buffers, so that the GPU begins with the first while Dawn translates the next. */
  #encode({ counts, source, byteLength, draws }: Commands): GPUCommandBuffer[] {
    const { operations, draw, programs } = this.#forward;
    const all = draws ? [...operations, draw] : operations;
    const buffers: GPUCommandBuffer[] = [];
    for (let first = 0; first < all.length; first += OPERATIONS_AT_ONCE) {
      const encoder = this.#gpu.device.createCommandEncoder();
      const pass = encoder.beginComputePass();
      for (const operation of all.slice(first, first + OPERATIONS_AT_ONCE)) {
        operation.encode(programs, pass, counts);
      }
      pass.end();
      const isLast = first + OPERATIONS_AT_ONCE >= all.length;
      if (isLast && byteLength > 0) {
        encoder.copyBufferToBuffer(source, 0, this.#scratch.readback, 0, byteLength);
      }
      buffers.push(encoder.finish());
    }
    return buffers;
  }

  async #finish(): Promise<ArrayBuffer> {
    await this.#gpu.device.queue.onSubmittedWorkDone();
    if (this.#failure !== undefined) throw this.#failure;
    return new ArrayBuffer(0);
  }

  async #read(byteLength: number): Promise<ArrayBuffer> {
    const { readback } = this.#scratch;
    try {
      // GPUMapMode.READ
      await readback.mapAsync(1, 0, byteLength);
    } catch (error) {
      throw this.#failure ?? error;
    }
    this.#mapped = true;
    if (this.#failure !== undefined) throw this.#failure;
    return readback.getMappedRange(0, byteLength);
  }

  #unmap(): void {
    if (this.#mapped) this.#scratch.readback.unmap();
    this.#mapped = false;
  }
}

function attentionShape(
  { headCount, kvHeadCount }: ModelSpec,
  { parts, kv }: Scratch,
  { info }: Gpu,
): AttentionShape {
  return {
    headCount,
    kvHeadCount,
    mostParts: parts,
    busyWorkgroups: BUSY_WORKGROUPS,
    manyQueries: manyQueries(kv, info.limits),
    manyWorkgroups: MANY_WORKGROUPS,
  };
}

function isSame(a: Commands, b: Commands): boolean {
  return (
    a.source === b.source &&
    a.byteLength === b.byteLength &&
    a.draws === b.draws &&
    a.counts.rows === b.counts.rows &&
    a.counts.wanted === b.counts.wanted &&
    a.counts.items === b.counts.items &&
    a.counts.merges === b.counts.merges &&
    a.counts.many === b.counts.many
  );
}

/** Draws from logits that were read back: in native code where there is some. */
function hostSampler(): SampleRows {
  const load = loadAddon();
  return load.available ? createNativeSampler(load.addon, machineLimits().cores) : sampleRows;
}
