// The `cpu` backend: the Backend contract over the C++ addon.

import type { ModelSpec } from '../../model/spec.ts';
import { machineLimits } from '../../runtime/limits.ts';
import type { SampleResult, SampleRow, SampleRows } from '../../sampling/sample-row.ts';
import type { WeightSource } from '../../weights/weight-source.ts';
import {
  type Backend,
  type BackendOptions,
  type Batch,
  type KvType,
  type StepResult,
  stateSlotsOf,
} from '../backend.ts';
import { type BatchLimits, BlockUses, batchLimits, checkBatch } from '../batch.ts';
import { HeldBlocks } from '../held-blocks.ts';
import type { Addon, ModelHandle } from './binding.ts';
import { createNativeSampler } from './sample-rows.ts';
import { uploadModel } from './upload.ts';

export interface CpuOptions extends BackendOptions {
  readonly threads?: number;
  readonly kvType?: KvType;
  /** Kernels to use rather than the fastest; all give the same bits. */
  readonly isa?: string;
}

export async function createCpuBackend(
  addon: Addon,
  spec: ModelSpec,
  weights: WeightSource,
  options: CpuOptions,
): Promise<Backend> {
  const threads = options.threads ?? machineLimits().cores;
  const stateSlots = stateSlotsOf(spec, options);
  const handle = addon.create(threads, options.isa ?? '');
  try {
    const model = await uploadModel(addon, handle, spec, weights, options.onProgress ?? (() => {}));
    addon.assemble(handle, model, options.kvType ?? 'f16', options.blockCount, stateSlots ?? 0);
  } catch (error) {
    addon.destroy(handle);
    throw error;
  }
  const { blockCount } = options;
  return new NativeBackend(
    'cpu',
    addon,
    handle,
    spec,
    { blockCount, stateSlots },
    createNativeSampler(addon, handle),
  );
}

/** Samples in steps, on a GPU. */
interface StepSampler {
  readonly isAvailable: boolean;
  step(batch: Batch, rows: readonly SampleRow[], states: Float32Array): Promise<readonly SampleResult[]>;
}

/** Steps and memory of a model in the addon, on the processor or on a GPU. */
export class NativeBackend implements Backend {
  readonly name: string;
  readonly blockCount: number;
  readonly stateSlots: number | undefined;
  readonly sampleRows: SampleRows;
  readonly #sampler: StepSampler | undefined;
  readonly #addon: Addon;
  readonly #handle: ModelHandle;
  readonly #spec: ModelSpec;
  readonly #limits: BatchLimits;
  readonly #uses: BlockUses;
  readonly #held: HeldBlocks;
  #logits = new Float32Array(0);
  #states = new Float32Array(0);
  #running: Promise<unknown> | undefined;
  #closed = false;
  #newThreads: number | undefined;

  constructor(
    name: string,
    addon: Addon,
    handle: ModelHandle,
    spec: ModelSpec,
    { blockCount, stateSlots }: Pick<Backend, 'blockCount' | 'stateSlots'>,
    sampleRows: SampleRows,
    sampler?: StepSampler,
  ) {
    this.#sampler = sampler?.isAvailable === true ? sampler : undefined;
    this.name = name;
    this.stateSlots = stateSlots;
    this.sampleRows = sampleRows;
    this.#addon = addon;
    this.#handle = handle;
    this.#spec = spec;
    this.blockCount = blockCount;
    this.#limits = batchLimits(spec, { blockCount, stateSlots });
    this.#uses = new BlockUses(blockCount);
    this.#held = new HeldBlocks(blockCount);
  }

  async step(batch: Batch, rows?: readonly SampleRow[]): Promise<StepResult> {
    if (this.#running !== undefined) throw new Error('a step is still running; await it before the next');
    const { vocabSize, hiddenSize } = this.#spec;
    checkBatch(batch, this.#limits, this.#uses);
    this.#held.take(batch);
    const states = batch.stateRows.length * hiddenSize;
    this.#states = withRoom(this.#states, states);
    this.#applyThreads();
    if (this.#sampler !== undefined && rows !== undefined) {
      const sampled = await this.#run(this.#sampler.step(batch, rows, this.#states));
      return { logits: new Float32Array(0), sampled, states: this.#states.subarray(0, states) };
    }
    const logits = batch.logitRows.length * vocabSize;
    this.#logits = withRoom(this.#logits, logits);
    await this.#run(this.#addon.step(this.#handle, batch, this.#logits, this.#states));
    return { logits: this.#logits.subarray(0, logits), states: this.#states.subarray(0, states) };
  }

  async #run<Result>(running: Promise<Result>): Promise<Result> {
    this.#running = running;
    try {
      return await running;
    } finally {
      this.#running = undefined;
      if (this.#closed) this.#addon.destroy(this.#handle);
    }
  }

  releaseBlocks(blocks: Int32Array): void {
    if (this.#running !== undefined) throw new Error('a step is still running; release blocks between steps');
    this.#held.release(blocks);
    this.#addon.releaseBlocks(this.#handle, blocks);
  }

  /** Where a GPU computes: what each kernel of a step takes. */
  profile(batch: Batch): ReturnType<Addon['profileStep']> {
    checkBatch(batch, this.#limits, this.#uses);
    this.#held.take(batch);
    return this.#addon.profileStep(this.#handle, batch);
  }

  useThreads(count: number): void {
    this.#newThreads = count;
  }

  /** Frees the model, at once or as soon as the running step ends. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    if (this.#running === undefined) this.#addon.destroy(this.#handle);
  }

  #applyThreads(): void {
    if (this.#newThreads !== undefined) this.#addon.useThreads(this.#handle, this.#newThreads);
    this.#newThreads = undefined;
  }
}

function withRoom(values: Float32Array<ArrayBuffer>, length: number): Float32Array<ArrayBuffer> {
  return values.length < length ? new Float32Array(length) : values;
}
