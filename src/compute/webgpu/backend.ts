// The `webgpu` backend: the Backend contract over kernels in WGSL.

import { machineLimits } from '../../machine/limits.ts';
import type { ModelSpec } from '../../model/spec.ts';
import { GREEDY_BELOW } from '../../sampling/parameters.ts';
import type { SampleResult, SampleRow, SampleRows } from '../../sampling/sample-row.ts';
import { sampleRows } from '../../sampling/sampler.ts';
import { needsCounts } from '../../sampling/token-counts.ts';
import type { WeightSource } from '../../weights/weight-source.ts';
import type { Backend, BackendOptions, Batch, KvType, StepResult } from '../backend.ts';
import { BlockUses, checkBatch } from '../batch.ts';
import { loadAddon } from '../cpu/binding.ts';
import { createNativeSampler } from '../cpu/sample-rows.ts';
import { HeldBlocks } from '../held-blocks.ts';
import { fileMatrixBytes, weightBytes } from '../memory.ts';
import { buildForward } from './forward.ts';
import { type Gpu, openGpu } from './gpu.ts';
import { manyQueries } from './kernels/attend-many.ts';
import { mostLikelyKernel, NO_CANDIDATE, NUMERIC_ERROR } from './kernels/most-likely.ts';
import { GpuMemory } from './memory.ts';
import { Operation } from './operation.ts';
import { startPacking } from './pack-workers.ts';
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
  const draw = drawOperation(spec, scratch);
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

function drawOperation({ vocabSize }: ModelSpec, { step, logits, tokens }: Scratch): Operation {
  const variant = {
    text: mostLikelyKernel(vocabSize),
    grid: ({ wanted }: StepCounts) => [wanted, 1] as const,
  };
  return new Operation('draw', [variant], [step, logits, tokens]);
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
    checkBatch(batch, { blockCount: this.blockCount, vocabSize, contextLength }, this.#uses);
    this.#held.take(batch);
    this.#running = true;
    try {
      const parts = splitBatch(batch, this.#scratch);
      return rows?.every(isMostLikely) === true && rows.length > 0
        ? { logits: new Float32Array(0), drawn: await this.#draw(parts) }
        : { logits: await this.#logits(parts, batch.logitRows.length) };
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

  async #draw(parts: readonly Batch[]): Promise<SampleResult[]> {
    const results: SampleResult[] = [];
    for (const part of parts) {
      const bytes = await this.#pass(part, this.#scratch.tokens, 4 * part.logitRows.length, true);
      for (const token of new Uint32Array(bytes)) results.push(asResult(token));
    }
    return results;
  }

  /** One forward pass; the first bytes of a buffer it has filled, valid until the next. */
  async #pass(batch: Batch, source: GPUBuffer, byteLength: number, draws: boolean): Promise<ArrayBuffer> {
    if (this.#mapped) this.#scratch.readback.unmap();
    this.#mapped = false;
    const { step, stepWords, readback } = this.#scratch;
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
    for (const buffer of ready ?? this.#encode(wanted)) queue.submit([buffer]);
    // Most steps are like the one before: while this one runs, the next one's commands are written.
    if (byteLength > 0) this.#ready = { commands: wanted, buffers: this.#encode(wanted) };
    const bytes = byteLength === 0 ? await this.#finish() : await this.#read(readback, byteLength);
    if (this.#failure !== undefined) throw this.#failure;
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
    return new ArrayBuffer(0);
  }

  async #read(readback: GPUBuffer, byteLength: number): Promise<ArrayBuffer> {
    try {
      // GPUMapMode.READ
      await readback.mapAsync(1, 0, byteLength);
    } catch (error) {
      throw this.#failure ?? error;
    }
    this.#mapped = true;
    return readback.getMappedRange(0, byteLength);
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

/** Whether a draw is the likeliest token, with nothing done to the logits before. */
function isMostLikely({ parameters, forbidden, mask }: SampleRow): boolean {
  return (
    parameters.temperature < GREEDY_BELOW &&
    parameters.logprobs === undefined &&
    parameters.logitBias.length === 0 &&
    !needsCounts(parameters) &&
    forbidden.length === 0 &&
    mask === undefined
  );
}

function asResult(token: number): SampleResult {
  if (token === NUMERIC_ERROR) return { ok: false, error: 'numeric-error' };
  return token === NO_CANDIDATE ? { ok: false, error: 'no-candidate' } : { ok: true, token };
}
