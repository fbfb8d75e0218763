// The `cuda` backend: the Backend contract over the C++ addon and NVIDIA's driver.

import type { ModelSpec } from '../../model/spec.ts';
import type { ImageInput, ImageView, VisionSpec } from '../../model/vision/vision-spec.ts';
import { messageOf } from '../../runtime/error-message.ts';
import { machineLimits } from '../../runtime/limits.ts';
import type { SampleRow, SampleRows } from '../../sampling/sample-row.ts';
import type { WeightSource } from '../../weights/weight-source.ts';
import {
  type Backend,
  type BackendOptions,
  type Batch,
  type BlockMemory,
  type ImageRun,
  type KvContent,
  type KvType,
  type StartStep,
  type StepResult,
  stateSlotsOf,
} from '../backend.ts';
import { type BatchLimits, BlockUses, batchLimits, checkBatch, checkRange } from '../batch.ts';
import type { Addon, ModelHandle, ViewHandle } from '../cpu/binding.ts';
import { nativeContent } from '../cpu/native-content.ts';
import { createNativeSampler } from '../cpu/sample-rows.ts';
import { uploadModel } from '../cpu/upload.ts';
import { HeldBlocks } from '../held-blocks.ts';
import { BackendFailedError } from '../image-failures.ts';
import { requireKvType } from '../kv-type.ts';
import { recurrentStateBytes, weightBytes } from '../memory.ts';
import type { Join } from '../tower/join-views.ts';
import { loadJoin } from '../tower/load-join.ts';
import type { TowerProgram } from '../tower/program.ts';
import { ProgramRun, type ViewRun } from '../tower/program-run.ts';
import { type CudaGpu, findCudaGpu } from './gpu.ts';
import { kernelsFor, visionKernelsFor } from './kernel-images.ts';
import { KvMemory } from './kv-memory.ts';
import { GpuSampler } from './sampling.ts';

export interface CudaOptions extends BackendOptions {
  /** They pack weights, and sample. */
  readonly threads?: number;
  readonly kvType?: KvType;
  /** One of several GPUs, by its number or a part of its name. */
  readonly gpu?: string;
  /** A cubin or PTX for that GPU, in place of all that belongs to it. */
  readonly kernels?: Uint8Array;
}

export class CudaMemoryError extends Error {
  override readonly name = 'CudaMemoryError';
}

/** What errors of the driver begin with. */
const DRIVER_ERROR = 'CUDA: ';

/** A thousand tokens: enough for the self-test and short answers. */
const FIRST_BLOCKS = 32;

export async function createCudaBackend(
  addon: Addon,
  spec: ModelSpec,
  weights: WeightSource,
  options: CudaOptions,
): Promise<CudaBackend> {
  const { blockCount, kvType = 'f16' } = options;
  requireKvType(kvType, 'cuda', spec);
  const gpu = findCudaGpu(addon, options.gpu);
  const kernels = options.kernels ?? kernelsFor(gpu.capability).content;
  const stateSlots = stateSlotsOf(spec, options);
  const neededBytes =
    weightBytes(spec, weights, addon.matrixBytes) + (stateSlots ?? 0) * recurrentStateBytes(spec);
  const handle = addon.createOnGpu(options.threads ?? machineLimits().cores, gpu.number, kernels);
  let freeBytes = 0;
  try {
    // Asked after the GPU is open, which takes some itself.
    freeBytes = addon.gpuFreeBytes(gpu.number);
    if (neededBytes > freeBytes) throw noRoom(gpu, neededBytes, freeBytes);
    if (spec.vision !== undefined && options.kernels === undefined) {
      addon.addKernels(handle, visionKernelsFor(gpu.capability).content);
    }
    const model = await uploadModel(addon, handle, spec, weights, options.onProgress ?? (() => {}));
    addon.assemble(handle, model, kvType, blockCount, stateSlots ?? 0);
    const first = Math.min(FIRST_BLOCKS, blockCount);
    if (addon.fitBlocks(handle, first, first) < first) throw noRoom(gpu, neededBytes, freeBytes);
  } catch (error) {
    addon.destroy(handle);
    throw isOutOfMemory(error) ? noRoom(gpu, neededBytes, freeBytes) : error;
  }
  const join = spec.vision && loadJoin(spec.vision.tower.join, weights);
  return new CudaBackend(addon, handle, gpu, spec, { blockCount, stateSlots, kvType, join });
}

/** By the driver's name for it, which its errors end with. */
function isOutOfMemory(error: unknown): boolean {
  return messageOf(error).includes('CUDA_ERROR_OUT_OF_MEMORY');
}

function noRoom({ name }: CudaGpu, neededBytes: number, freeBytes: number): CudaMemoryError {
  const gigabytes = (bytes: number) => `${(bytes / 1e9).toFixed(2)} GB`;
  return new CudaMemoryError(
    `${name} has no room for this model: its weights take ${gigabytes(neededBytes)}, and what a step works in some more; ${gigabytes(freeBytes)} were free`,
  );
}

interface Parts extends Pick<Backend, 'blockCount' | 'stateSlots'> {
  readonly kvType: KvType;
  readonly join: Join | undefined;
}

export class CudaBackend implements Backend {
  readonly name = 'cuda';
  readonly device: string;
  readonly blockCount: number;
  readonly stateSlots: number | undefined;
  readonly sampleRows: SampleRows;
  readonly blockMemory: BlockMemory;
  readonly content: KvContent;
  readonly beginImage?: (image: ImageInput) => ImageRun;
  readonly #addon: Addon;
  readonly #handle: ModelHandle;
  readonly #kv: KvMemory;
  readonly #spec: ModelSpec;
  readonly #limits: BatchLimits;
  readonly #uses: BlockUses;
  readonly #held: HeldBlocks;
  readonly #sampler: GpuSampler;
  readonly #endedViews: ViewHandle[] = [];
  #logits = new Float32Array(0);
  #states = new Float32Array(0);
  #running = false;
  #closed = false;
  /** A driver answers nothing more once a kernel has failed. */
  #lost: Error | undefined;

  constructor(
    addon: Addon,
    handle: ModelHandle,
    { name }: CudaGpu,
    spec: ModelSpec,
    { blockCount, stateSlots, kvType, join }: Parts,
  ) {
    this.device = name;
    this.blockCount = blockCount;
    this.stateSlots = stateSlots;
    this.sampleRows = createNativeSampler(addon, handle);
    this.#addon = addon;
    this.#handle = handle;
    this.#spec = spec;
    this.#limits = batchLimits(spec, { blockCount, stateSlots });
    this.#uses = new BlockUses(blockCount);
    this.#held = new HeldBlocks(blockCount);
    this.#sampler = new GpuSampler({ addon, handle, vocabSize: spec.vocabSize, sampleRows: this.sampleRows });
    const kv = new KvMemory(addon, handle, blockCount, Math.min(FIRST_BLOCKS, blockCount));
    this.#kv = kv;
    this.content = nativeContent({
      addon,
      handle,
      kvType,
      stateSlots,
      held: this.#held,
      checkIdle: () => this.#checkIdle(),
      placeOf: (block) => kv.placeOf(block),
      placeFor: (block) => kv.placeFor(block),
    });
    this.blockMemory = {
      get capacity() {
        return kv.capacity;
      },
      fit: async (needed, most) => {
        this.#checkIdle();
        return kv.fit(needed, most);
      },
    };
    const { vision } = spec;
    if (vision !== undefined && join !== undefined) {
      this.beginImage = (image) => this.#beginImage(vision, join, image);
    }
  }

  async step(batch: Batch, rows?: readonly SampleRow[]): Promise<StepResult> {
    this.#checkIdle();
    checkBatch(batch, this.#limits, this.#uses);
    this.#held.check(batch);
    const needed = this.#kv.needed(batch);
    if (needed > this.#kv.capacity && this.#kv.fit(needed, this.blockCount) < needed) {
      throw new CudaMemoryError(`the GPU has room for ${this.#kv.capacity} KV blocks, not for ${needed}`);
    }
    this.#held.hold(batch);
    const placed = this.#kv.place(batch);
    return rows !== undefined && this.#sampler.isAvailable
      ? this.#computeAndSample(placed, rows)
      : this.#compute(placed);
  }

  prepareStep(batch: Batch, rows: readonly SampleRow[]): StartStep | undefined {
    if (!this.#running || this.#closed || this.#lost !== undefined) return undefined;
    checkBatch(batch, this.#limits, this.#uses);
    this.#held.check(batch);
    if (this.#kv.needed(batch) > this.#kv.capacity) return undefined;
    const placed = this.#kv.place(batch);
    const prepared = this.#sampler.prepare(placed, rows);
    return (
      prepared &&
      (async (tokens) => {
        this.#checkIdle();
        checkRange('token', tokens, this.#spec.vocabSize);
        this.#held.hold(batch);
        const sampled = await this.#run(tokensOf(batch), () => this.#sampler.startPrepared(prepared, tokens));
        return { logits: new Float32Array(0), sampled, states: new Float32Array(0) };
      })
    );
  }

  async #computeAndSample(batch: Batch, rows: readonly SampleRow[]): Promise<StepResult> {
    const states = batch.stateRows.length * this.#spec.hiddenSize;
    this.#states = withRoom(this.#states, states);
    const sampled = await this.#run(tokensOf(batch), () => this.#sampler.step(batch, rows, this.#states));
    return { logits: new Float32Array(0), sampled, states: this.#states.subarray(0, states) };
  }

  async #compute(batch: Batch): Promise<StepResult> {
    const logits = batch.logitRows.length * this.#spec.vocabSize;
    const states = batch.stateRows.length * this.#spec.hiddenSize;
    this.#logits = withRoom(this.#logits, logits);
    this.#states = withRoom(this.#states, states);
    await this.#run(tokensOf(batch), () => this.#addon.step(this.#handle, batch, this.#logits, this.#states));
    return { logits: this.#logits.subarray(0, logits), states: this.#states.subarray(0, states) };
  }

  #beginImage({ tower, preprocessing }: VisionSpec, join: Join, image: ImageInput): ImageRun {
    return new ProgramRun(image, { steps: tower.steps, join }, preprocessing, (program, view) =>
      this.#beginView(program, view),
    );
  }

  #beginView(program: TowerProgram, { rgb, width, height }: ImageView): ViewRun {
    const [addon, handle] = [this.#addon, this.#handle];
    const view = addon.beginView(handle, program, rgb);
    const alone = async (start: () => Promise<void>) => {
      try {
        this.#checkIdle();
        await this.#run(`an image of ${width} x ${height} pixels`, start);
      } catch (error) {
        // No image is to blame for it.
        throw error === this.#lost ? new BackendFailedError(messageOf(error)) : error;
      }
    };
    return {
      run: (operation, firstRow, count) =>
        alone(() => addon.runView(handle, view, operation, firstRow, count)),
      settle: () => alone(() => addon.settleView(handle, view)),
      read: (output, into) => alone(() => addon.readView(handle, view, output, into)),
      close: () => this.#endView(view),
    };
  }

  /** Memory of a GPU is given back between steps. */
  #endView(view: ViewHandle): void {
    if (this.#running) this.#endedViews.push(view);
    else this.#addon.endView(view);
  }

  /** `of` is what memory may be missing for. A backend closed meanwhile frees its model afterwards. */
  async #run<Result>(of: string, start: () => Promise<Result>): Promise<Result> {
    this.#running = true;
    try {
      return await start();
    } catch (error) {
      throw this.#runError(error, of);
    } finally {
      this.#running = false;
      for (const view of this.#endedViews.splice(0)) this.#addon.endView(view);
      if (this.#closed) this.#addon.destroy(this.#handle);
    }
  }

  #runError(error: unknown, of: string): unknown {
    const message = messageOf(error);
    if (isOutOfMemory(error)) return new CudaMemoryError(`the GPU has no memory for ${of}`);
    if (!message.startsWith(DRIVER_ERROR)) return error;
    this.#lost = new Error(`the GPU was lost: ${message}`);
    return this.#lost;
  }

  #checkIdle(): void {
    if (this.#closed) throw new Error('the backend is closed');
    if (this.#running) throw new Error('a step is still running; await it before the next');
    if (this.#lost !== undefined) throw this.#lost;
  }

  releaseBlocks(blocks: Int32Array): void {
    if (this.#running) throw new Error('a step is still running; release blocks between steps');
    this.#held.release(blocks);
    this.#kv.release(blocks);
  }

  /** What each kernel of a step takes. */
  profile(batch: Batch): ReturnType<Addon['profileStep']> {
    this.#checkIdle();
    checkBatch(batch, this.#limits, this.#uses);
    this.#held.take(batch);
    return this.#addon.profileStep(this.#handle, this.#kv.place(batch));
  }

  /** Frees the model, at once or as soon as the running step ends. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    if (!this.#running) this.#addon.destroy(this.#handle);
  }
}

function tokensOf({ tokens }: Batch): string {
  return `a step of ${tokens.length} tokens`;
}

function withRoom(values: Float32Array<ArrayBuffer>, length: number): Float32Array<ArrayBuffer> {
  return values.length < length ? new Float32Array(length) : values;
}
