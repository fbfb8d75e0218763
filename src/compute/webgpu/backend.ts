// The `webgpu` backend: the Backend contract over kernels in WGSL.

import type { ModelSpec } from '../../model/spec.ts';
import type { ImageInput } from '../../model/vision/vision-spec.ts';
import { machineLimits } from '../../runtime/limits.ts';
import type { SampleResult, SampleRow, SampleRows } from '../../sampling/sample-row.ts';
import { sampleRows } from '../../sampling/sampler.ts';
import type { WeightSource } from '../../weights/weight-source.ts';
import {
  type Backend,
  type BackendOptions,
  type Batch,
  type BlockMemory,
  type ImageRun,
  type KvContent,
  type KvType,
  type StepResult,
  stateSlotsOf,
} from '../backend.ts';
import { type BatchLimits, BlockUses, batchLimits, checkBatch, checkRange } from '../batch.ts';
import { loadAddon } from '../cpu/binding.ts';
import { createNativeSampler } from '../cpu/sample-rows.ts';
import { finishSampling } from '../device-sampling/finish-sampling.ts';
import { planSampling } from '../device-sampling/plan-sampling.ts';
import { HeldBlocks } from '../held-blocks.ts';
import { requireKvType } from '../kv-type.ts';
import { fileMatrixBytes, weightBytes } from '../memory.ts';
import { type BufferPart, readParts, writeParts } from './buffer-content.ts';
import { describeForward } from './forward.ts';
import { type Gpu, openGpu } from './gpu.ts';
import { cacheBlockBytes } from './kernels/kv-layout.ts';
import { paddedValues } from './kernels/linear-input.ts';
import { firstCandidatesKernel, samplingThreads } from './kernels/sampling.ts';
import { KvCache } from './kv-cache.ts';
import { GpuMemory, GpuMemoryError } from './memory.ts';
import { Operation } from './operation.ts';
import { startPacking } from './pack-workers.ts';
import { type Forward, Passes, type Reading } from './passes.ts';
import type { StepCounts } from './plan-step.ts';
import { Programs } from './programs.ts';
import { RowsRead } from './rows-read.ts';
import type { Scratch } from './scratch.ts';
import { splitBatch, wholeRuns } from './split-batch.ts';
import { beginImage } from './tower/begin-image.ts';
import type { Tower } from './tower/tower.ts';

export interface WebGpuOptions extends BackendOptions {
  readonly kvType?: KvType;
  /** One of several GPUs by name, or one that is open and stays so. */
  readonly gpu?: string | Gpu;
}

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
  const kvType = options.kvType ?? 'f16';
  requireKvType(kvType, 'webgpu', spec);
  const { builder, imageRows, tower } = describeForward(spec, kvType, gpu.info.limits);
  const scratch = await builder.scratchPlan.allocate(memory);
  const { blockCount } = options;
  const kv = await KvCache.allocate(gpu.device, memory, spec, { kvType, blockCount, bindingBytes });
  const stateSlots = stateSlotsOf(spec, options);
  const recurrentStates = await allocateStates(memory, spec, stateSlots ?? 0, bindingBytes);
  const totalBytes = weightBytes(spec, weights, fileMatrixBytes);
  let loaded = 0;
  const onBytes = (bytes: number) => {
    loaded += bytes;
    options.onProgress?.(Math.min(1, loaded / totalBytes));
  };
  const packing = startPacking(totalBytes, machineLimits().cores);
  const loader = { memory, packing, weights, bindingBytes, onBytes };
  const loading = builder.load({ loader, rows: scratch.rows }, { kv: kv.buffers, recurrentStates });
  const operations = await loading.finally(() => packing.close());
  const sample = samplingOperation(scratch, gpu);
  const programs = Programs.of(gpu.device);
  // Software adapters compile slowly: there each kernel waits until it is needed.
  if (!gpu.info.software) for (const operation of [...operations, sample]) operation.compile(programs);
  await programs.ready();
  await gpu.device.queue.onSubmittedWorkDone();
  return new WebGpuBackend(
    { gpu, memory, kv, kvType, recurrentStates },
    spec,
    scratch,
    {
      operations,
      sample,
      programs,
      shapes: builder.shapes.all,
      vision: imageRows && { rows: imageRows, imageToken: spec.perLayerInputs?.imageToken ?? 0 },
    },
    { blockCount, stateSlots, tower },
  );
}

/** A buffer for each recurrent state, with all slots. */
async function allocateStates(
  memory: GpuMemory,
  { recurrentStates }: ModelSpec,
  slots: number,
  bindingBytes: number,
): Promise<GPUBuffer[]> {
  const most = Math.floor(bindingBytes / Math.max(...recurrentStates.map(({ size }) => 4 * size)));
  if (recurrentStates.length > 0 && slots > most) {
    throw new GpuMemoryError(
      `${slots} state slots of this model are more than the GPU can bind; choose at most ${most}`,
    );
  }
  const buffers: GPUBuffer[] = [];
  for (const { size } of recurrentStates)
    buffers.push(await memory.storage('recurrent state', 4 * size * slots));
  return buffers;
}

function samplingOperation(scratch: Scratch, { info }: Gpu): Operation {
  const { samples, logits, saved, found } = scratch;
  const variant = {
    text: firstCandidatesKernel(samplingThreads(info.limits.workgroupThreads)),
    grid: ({ wanted }: StepCounts) => [wanted, 1] as const,
  };
  return new Operation('sample', [variant], [samples, logits, saved, found]);
}

interface GpuResources {
  readonly gpu: Gpu;
  readonly memory: GpuMemory;
  readonly kv: KvCache;
  readonly kvType: KvType;
  /** Each has all slots. */
  readonly recurrentStates: readonly GPUBuffer[];
}

interface Parts extends Pick<Backend, 'blockCount' | 'stateSlots'> {
  readonly tower: Tower | undefined;
}

class WebGpuBackend implements Backend {
  readonly name = 'webgpu';
  readonly device: string;
  readonly wantsSelfTest: boolean;
  readonly blockCount: number;
  readonly stateSlots: number | undefined;
  readonly sampleRows: SampleRows;
  readonly blockMemory: BlockMemory;
  readonly content: KvContent;
  readonly beginImage?: (image: ImageInput) => ImageRun;
  readonly #gpu: Gpu;
  readonly #memory: GpuMemory;
  readonly #kv: KvCache;
  readonly #spec: ModelSpec;
  readonly #scratch: Scratch;
  readonly #passes: Passes;
  readonly #limits: BatchLimits;
  readonly #uses: BlockUses;
  readonly #held: HeldBlocks;
  #running = false;
  #closed = false;

  constructor(
    { gpu, memory, kv, kvType, recurrentStates }: GpuResources,
    spec: ModelSpec,
    scratch: Scratch,
    forward: Forward,
    { blockCount, stateSlots, tower }: Parts,
  ) {
    this.sampleRows = hostSampler();
    this.device = gpu.info.name;
    // Software adapters are tested with this program.
    this.wantsSelfTest = !gpu.info.software;
    this.#gpu = gpu;
    this.#memory = memory;
    this.#kv = kv;
    this.blockMemory = {
      get capacity() {
        return kv.capacity;
      },
      fit: (needed, most) => this.#alone(() => this.#fit(needed, most)),
    };
    this.#spec = spec;
    this.#scratch = scratch;
    this.#passes = new Passes(gpu, scratch, forward);
    this.blockCount = blockCount;
    this.stateSlots = stateSlots;
    this.#limits = batchLimits(spec, { blockCount, stateSlots });
    this.#uses = new BlockUses(blockCount);
    this.#held = new HeldBlocks(blockCount);
    this.content = this.#content(kvType, recurrentStates);
    const { programs } = forward;
    if (tower === undefined) return;
    const passes = this.#passes;
    const resources = { gpu, memory, tower, scratch, programs, passes };
    this.beginImage = (image) => beginImage(resources, image, (run) => this.#alone(run));
  }

  async step(batch: Batch, rows?: readonly SampleRow[]): Promise<StepResult> {
    this.#checkIdle();
    if (rows !== undefined && rows.length !== batch.logitRows.length) {
      throw new Error(`${rows.length} samples were given for ${batch.logitRows.length} rows of logits`);
    }
    checkBatch(batch, this.#limits, this.#uses);
    this.#held.check(batch);
    // Kernels take them as places in a table.
    checkRange('rotary position', batch.rotaryPositions ?? new Int32Array(), this.#spec.contextLength);
    return this.#alone(async () => {
      const needed = this.#kv.needed(batch);
      if (needed > this.#kv.capacity && (await this.#fit(needed, this.blockCount)) < needed) {
        throw new GpuMemoryError(`the GPU has room for ${this.#kv.capacity} KV blocks, not for ${needed}`);
      }
      this.#held.hold(batch);
      return this.#compute(this.#kv.place(batch), rows);
    });
  }

  async #compute(batch: Batch, rows: readonly SampleRow[] | undefined): Promise<StepResult> {
    const { hiddenSize } = this.#spec;
    const parts = splitBatch(batch, this.#scratch, wholeRuns(this.#spec));
    const states = new RowsRead(batch.stateRows.length, hiddenSize, paddedValues(hiddenSize));
    return rows === undefined
      ? { logits: await this.#logits(parts, batch.logitRows.length, states), states: states.values }
      : {
          logits: new Float32Array(0),
          sampled: await this.#sample(parts, rows, states),
          states: states.values,
        };
  }

  async #fit(needed: number, most: number): Promise<number> {
    const { replacements } = this.#kv;
    const capacity = await this.#kv.fit(needed, most);
    if (this.#kv.replacements !== replacements) this.#passes.rebind();
    return capacity;
  }

  /** One thing at a time; a backend closed meanwhile releases its memory afterwards. */
  async #alone<Result>(run: () => Promise<Result>): Promise<Result> {
    this.#checkIdle();
    this.#running = true;
    try {
      return await run();
    } finally {
      this.#running = false;
      if (this.#closed) this.#release();
    }
  }

  #checkIdle(): void {
    if (this.#closed) throw new Error('the backend is closed');
    if (this.#running) throw new Error('a step is still running; await it before the next');
  }

  releaseBlocks(blocks: Int32Array): void {
    if (this.#running) throw new Error('a step is still running; release blocks between steps');
    this.#held.release(blocks);
    this.#kv.release(blocks);
  }

  #content(kvType: KvType, recurrentStates: readonly GPUBuffer[]): KvContent {
    const { device } = this.#gpu;
    const statesIn = (slot: number): BufferPart[] => {
      checkRange('state slot', Int32Array.of(slot), this.stateSlots ?? 0);
      return recurrentStates.map((buffer, index) => {
        const bytes = 4 * (this.#spec.recurrentStates[index] as { readonly size: number }).size;
        return { buffer, at: slot * bytes, bytes };
      });
    };
    return {
      format: `webgpu ${this.device} ${kvType}`,
      blockBytes: cacheBlockBytes(this.#spec, kvType).reduce((sum, bytes) => sum + bytes, 0),
      stateBytes: this.#spec.recurrentStates.reduce((sum, { size }) => sum + 4 * size, 0),
      readBlocks: async (blocks) => {
        this.#checkIdle();
        this.#held.checkContent(blocks);
        return readParts(
          device,
          Array.from(blocks, (block) => this.#kv.placesOf(block)),
        );
      },
      writeBlock: (block, bytes) => {
        this.#checkIdle();
        this.#held.put(block);
        writeParts(device, this.#kv.placesFor(block), bytes);
      },
      readState: async (slot) => {
        this.#checkIdle();
        return (await readParts(device, [statesIn(slot)]))[0] as Uint8Array<ArrayBuffer>;
      },
      writeState: (slot, bytes) => {
        this.#checkIdle();
        writeParts(device, statesIn(slot), bytes);
      },
    };
  }

  /** Releases the memory, at once or when the running step ends. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    if (!this.#running) this.#release();
  }

  #release(): void {
    this.#memory.release();
    this.#gpu.close();
  }

  /** One pass over a part of a batch; adds its states to `states`, the reading is valid until the next pass. */
  async #pass(part: Batch, reading: Reading, samples: boolean, states: RowsRead): Promise<ArrayBuffer> {
    const { states: source } = this.#scratch;
    const stateReading = { source, byteLength: states.bytesOf(part.stateRows.length) };
    const [bytes, stateBytes] = await this.#passes.run(part, { readings: [reading, stateReading], samples });
    states.take(stateBytes as ArrayBuffer);
    return bytes as ArrayBuffer;
  }

  async #logits(parts: readonly Batch[], rows: number, states: RowsRead): Promise<Float32Array> {
    const { vocabSize } = this.#spec;
    const { logits: source } = this.#scratch;
    const [only] = parts;
    const compute = (part: Batch): Promise<ArrayBuffer> => {
      const byteLength = 4 * part.logitRows.length * vocabSize;
      return this.#pass(part, { source, byteLength }, false, states);
    };
    // Not copied: they are many, and valid until the next step.
    if (parts.length === 1 && only !== undefined) return new Float32Array(await compute(only));
    const logits = new Float32Array(rows * vocabSize);
    let at = 0;
    for (const part of parts) {
      logits.set(new Float32Array(await compute(part)), at);
      at += part.logitRows.length * vocabSize;
    }
    return logits;
  }

  async #sample(
    parts: readonly Batch[],
    rows: readonly SampleRow[],
    states: RowsRead,
  ): Promise<SampleResult[]> {
    const results: SampleResult[] = [];
    for (const part of parts) {
      const own = rows.slice(results.length, results.length + part.logitRows.length);
      results.push(...(await this.#samplePart(part, own, states)));
    }
    return results;
  }

  async #samplePart(part: Batch, rows: readonly SampleRow[], states: RowsRead): Promise<SampleResult[]> {
    const { vocabSize } = this.#spec;
    const { samples, samplingWords, found, logits } = this.#scratch;
    const planned = planSampling(rows, vocabSize, samplingWords);
    this.#gpu.device.queue.writeBuffer(samples, 0, planned.words);
    const { byteLength } = planned;
    const answer = await this.#pass(part, { source: found, byteLength }, true, states);
    const results = finishSampling(answer, rows, planned, vocabSize);
    const open = [...results.keys()].filter((index) => results[index] === undefined);
    if (open.length === 0) return results as SampleResult[];
    const openRows = open.map((index) => rows[index] as SampleRow);
    const bytes = await this.#passes.readRows(logits, 4 * vocabSize, open);
    const sampled = this.sampleRows(new Float32Array(bytes), vocabSize, openRows);
    return results.map((result, index) => result ?? (sampled[open.indexOf(index)] as SampleResult));
  }
}

/** Samples from logits that were read back, in native code where the addon is built. */
function hostSampler(): SampleRows {
  const load = loadAddon();
  return load.available ? createNativeSampler(load.addon, machineLimits().cores) : sampleRows;
}
