// The C++ addon as those that compute see it.

import type { CacheSpec } from '../../model/spec.ts';
import { loadNativeAddon, type NativeAddonLoad } from '../../runtime/native-addon.ts';
import type { TensorType } from '../../weights/tensor-type.ts';
import type { Batch, KvType } from '../backend.ts';
import type { TowerProgram } from '../tower/program.ts';
import type { NativeModel } from './native-model.ts';

declare const handleBrand: unique symbol;
export interface ModelHandle {
  readonly [handleBrand]: true;
}

declare const viewBrand: unique symbol;
export interface ViewHandle {
  readonly [viewBrand]: true;
}

declare const samplerBrand: unique symbol;
interface SamplerHandle {
  readonly [samplerBrand]: true;
}

/** Rows to sample, packed flat; see sample-rows.ts. */
export interface SampleJob {
  /** Per row: temperature, top-p, min-p, typical-p, repetition, presence and frequency penalty, uniform number. */
  readonly reals: Float64Array;
  /** Per row: top-k; alternatives to report, -1 for no log-probabilities; first word of its mask, -1 for none; a given token, -1 for none. */
  readonly integers: Int32Array;
  /** An array for each row: tokens under penalties. Read as they are: they may be long. */
  readonly penalized: readonly Int32Array[];
  readonly generated: readonly Int32Array[];
  readonly biasStarts: Int32Array;
  readonly biased: Int32Array;
  readonly biases: Float64Array;
  readonly forbiddenStarts: Int32Array;
  readonly forbidden: Int32Array;
  readonly masks: Uint32Array;
  /** Places per row in `topTokens` and `topLogprobs`. */
  readonly stride: number;
}

export interface SampleOutput {
  /** -1: numeric error; -2: no candidate. */
  readonly tokens: Int32Array;
  readonly logprobs: Float32Array;
  readonly ranks: Int32Array;
  readonly topCounts: Int32Array;
  readonly topTokens: Int32Array;
  readonly topLogprobs: Float32Array;
}

/** A product that a GPU is probed with. */
export interface GpuProduct {
  readonly type: TensorType;
  readonly outputs: number;
  readonly inputs: number;
  /** Matrices of this shape. */
  readonly members: number;
  readonly rows: number;
  /** Member, first row and number of rows, at most eight, of each tile, members in order; empty: all rows are the first member's. */
  readonly tiles: Int32Array;
  /** The kernels that are used where the type has them: few or many; empty: those that a step would use. */
  readonly family: string;
}

/** What a model's threads did, with times in microseconds since the recording began. Arrays are rows of numbers. */
export interface NativeTimeline {
  readonly texts: readonly string[];
  /** The operation and what it is of, as places in `texts`; bytes of weights; begin and end. */
  readonly loops: Float64Array;
  /** Begin and end. */
  readonly steps: Float64Array;
  /** By thread, the calling one first: the place of the loop, begin and end. */
  readonly pieces: readonly Float64Array[];
  /** Loops and pieces for which there was no room. */
  readonly dropped: number;
}

export interface Addon {
  /** Names of the kernel tables this machine runs, slowest first. */
  kernels(): string[];
  /** Names of the instruction sets this machine runs, slowest first, whether or not the addon has kernels for them. */
  instructionSets(): string[];
  /**
   * An empty `isa` takes the fastest kernels. `threadNodes`: the NUMA node of each thread, `coreNodes`: of each core, or -1; both are
   * empty where all memory is as near to every core.
   */
  create(threads: number, isa: string, threadNodes: Int32Array, coreNodes: Int32Array): ModelHandle;
  /** The GPUs that NVIDIA's driver finds; throws where there is no driver. `capability` is ten times the compute capability. */
  gpus(): readonly { readonly name: string; readonly capability: number; readonly bytes: number }[];
  /** The model is on a GPU; `kernels` is a cubin for it, or PTX that ends with a zero. */
  createOnGpu(threads: number, gpu: number, kernels: Uint8Array): ModelHandle;
  /** Adds kernels to those of `createOnGpu`, before the model is assembled. */
  addKernels(model: ModelHandle, kernels: Uint8Array): void;
  /** Seconds that a GPU takes to copy as much within its memory. */
  timeGpuCopy(gpu: number, kernels: Uint8Array, megabytes: number): number;
  /** What is free of a GPU's memory. */
  gpuFreeBytes(gpu: number): number;
  /**
   * Commits memory of a GPU for `needed` KV blocks, or for as many as there is memory for, and releases that of more than `most`, in
   * whole pages; returns how many have some.
   */
  fitBlocks(model: ModelHandle, needed: number, most: number): number;
  /** Runs a step of a model on a GPU kernel by kernel, and says what each took. */
  profileStep(
    model: ModelHandle,
    batch: Batch,
  ): readonly { readonly kernel: string; readonly launches: number; readonly microseconds: number }[];
  /** Copies KV blocks of a GPU: each pair of numbers one, from a place to another. */
  moveBlocks(model: ModelHandle, moves: Int32Array): void;
  /** Allocates a matrix of `members` of one shape, and returns its number. */
  addMatrix(model: ModelHandle, type: TensorType, outputs: number, inputs: number, members: number): number;
  /**
   * `firstRow` is a multiple of 16. `bytes` must stay as they are until the promise settles; it rejects where a scale or
   * minimum is not finite.
   */
  packRows(
    model: ModelHandle,
    matrix: number,
    member: number,
    firstRow: number,
    count: number,
    bytes: Uint8Array,
  ): Promise<void>;
  /** Assembles the model from its matrices; call it before any step. */
  assemble(
    model: ModelHandle,
    description: NativeModel,
    kvType: KvType,
    blockCount: number,
    stateSlots: number,
  ): void;
  step(model: ModelHandle, batch: Batch, logits: Float32Array, states: Float32Array): Promise<void>;
  /** See `Backend.predict`; `logits` has a row for each sequence. Never during a step. */
  predict(model: ModelHandle, batch: Batch, logits: Float32Array): Promise<void>;
  /**
   * See `Backend.draft`: `rounds` for each sequence, `job` has its rows, one sequence after the other, and `tokens` and `logprobs`
   * have a place for each; from the end of a draft on they stay as they are. `job` is not changed meanwhile.
   */
  draft(
    model: ModelHandle,
    batch: Batch,
    rounds: Int32Array,
    job: SampleJob,
    leastLogprob: number,
    tokens: Int32Array,
    logprobs: Float32Array,
  ): Promise<void>;
  /** Begins to run the vision tower over a view of three bytes a pixel; may be called during a step. */
  beginView(model: ModelHandle, program: TowerProgram, rgb: Uint8Array): ViewHandle;
  /** Computes `count` rows of an operation of the program; on a GPU it launches them. Never during a step. */
  runView(
    model: ModelHandle,
    view: ViewHandle,
    operation: number,
    firstRow: number,
    count: number,
  ): Promise<void>;
  /** Waits until a GPU has computed what was launched. */
  settleView(model: ModelHandle, view: ViewHandle): Promise<void>;
  /** Values of one of the program's outputs. */
  readView(model: ModelHandle, view: ViewHandle, output: number, values: Float32Array): Promise<void>;
  /** Gives its memory back, as soon as nothing computes it; that of a GPU never during a step. */
  endView(view: ViewHandle): void;
  /** Whether a model on a GPU takes `stepAndSample`. */
  canSample(model: ModelHandle): boolean;
  /**
   * A step of a model on a GPU that samples there: `jobs` and `found` are those of device-sampling/sampling-layout.ts. Without a
   * promise the GPU is at work, and `isStepDone` must be asked; `found` and `states` must be kept until then.
   */
  stepAndSample(
    model: ModelHandle,
    batch: Batch,
    jobs: Uint32Array,
    lists: number,
    found: Uint32Array,
    states: Float32Array,
  ): Promise<void> | undefined;
  /** Once true, results are in place. */
  isStepDone(model: ModelHandle): boolean;
  /**
   * While a GPU is at work on a step: prepares the one after it, whose tokens are not known yet. False where it cannot be. It holds
   * until another step begins.
   */
  prepareStep(model: ModelHandle, batch: Batch, jobs: Uint32Array, lists: number): boolean;
  /** Starts the step that was prepared; `isStepDone` must be asked, and `found` be kept until then. */
  startPrepared(model: ModelHandle, tokens: Int32Array, found: Uint32Array): void;
  /** Logits of the last step of a model on a GPU: rows by their place among its `logitRows`. */
  readLogits(model: ModelHandle, rows: Int32Array, logits: Float32Array): Promise<void>;
  /** Samples rows of any logits on a GPU, for tests and benchmarks; returns the seconds of each further repetition. */
  probeSampling(
    gpu: number,
    kernels: Uint8Array,
    logits: Float32Array,
    vocabSize: number,
    jobs: Uint32Array,
    lists: number,
    repeats: number,
    found: Uint32Array,
  ): number;
  releaseBlocks(model: ModelHandle, blocks: Int32Array): void;
  /** Bytes of what a KV block and a slot of recurrent states hold, the same on the processor and on a GPU. */
  contentBytes(model: ModelHandle): { readonly block: number; readonly state: number };
  /** Copies them out and in, between steps. Of a GPU a block is given by its slot, which has memory. */
  readBlock(model: ModelHandle, block: number, to: Uint8Array): void;
  writeBlock(model: ModelHandle, block: number, from: Uint8Array): void;
  readState(model: ModelHandle, slot: number, to: Uint8Array): void;
  writeState(model: ModelHandle, slot: number, from: Uint8Array): void;
  /** At most as many as the model was created with. */
  useThreads(model: ModelHandle, threads: number): void;
  /** Records what the model's threads do, with room for that many loops in all and pieces of each thread; between steps. */
  startTimeline(model: ModelHandle, loops: number, pieces: number): void;
  /** Ends the recording. */
  takeTimeline(model: ModelHandle): NativeTimeline;
  destroy(model: ModelHandle): void;
  /** `stateSize`: values of states that blocks keep for an MTP head; 0 where there is none. */
  kvBlockBytes(kvType: KvType, caches: readonly CacheSpec[], stateSize: number): number;
  matrixBytes(type: TensorType, outputs: number, inputs: number): number;
  /** Weights packed and read back, for tests: `out` is outputs x inputs. */
  unpack(type: TensorType, weights: Uint8Array, outputs: number, inputs: number, out: Float32Array): void;
  /** One product through one ISA's kernels, for tests: `out` is rows x outputs. */
  multiply(
    isa: string,
    type: TensorType,
    weights: Uint8Array,
    outputs: number,
    inputs: number,
    x: Float32Array,
    out: Float32Array,
  ): void;
  timeMultiply(
    isa: string,
    type: TensorType,
    outputs: number,
    inputs: number,
    rows: number,
    threads: number,
    repeats: number,
  ): { readonly seconds: number; readonly bytes: number };
  /** One product on a GPU, for tests: `weights` of all members, `out` is rows x outputs. */
  multiplyOnGpu(
    gpu: number,
    kernels: Uint8Array,
    product: GpuProduct,
    weights: Uint8Array,
    x: Float32Array,
    out: Float32Array,
  ): void;
  /** Seconds of one product, with weights that no cache holds. */
  timeMultiplyOnGpu(gpu: number, kernels: Uint8Array, product: GpuProduct, repeats: number): number;
  readBandwidth(threads: number, megabytes: number): number;
  /** Uses a model's threads, between or during its steps, or a number of its own. */
  createSampler(threads: ModelHandle | number): SamplerHandle;
  sampleRows(
    sampler: SamplerHandle,
    logits: Float32Array,
    vocabSize: number,
    job: SampleJob,
    output: SampleOutput,
  ): void;
}

export type AddonLoad = NativeAddonLoad<Addon>;

export function loadAddon(path?: string): AddonLoad {
  return loadNativeAddon<Addon>(path);
}

/** A notice where the addon lacks this machine's fastest kernels: it was compiled for another processor. */
export function missingKernels(addon: Addon): string | undefined {
  const [fastest, wanted] = [addon.kernels().at(-1), addon.instructionSets().at(-1)];
  if (fastest === wanted) return undefined;
  return `the C++ addon was built for another processor: it computes with ${fastest} kernels where ${wanted} would be faster; run npm run setup`;
}
