// The contract every compute backend keeps: one step advances all sequences of a batch in one forward pass.

import type { ModelSpec } from '../model/spec.ts';
import type { ImageInput } from '../model/vision/vision-spec.ts';
import type { SampleResult, SampleRow, SampleRows } from '../sampling/sample-row.ts';
import type { WeightSource } from '../weights/weight-source.ts';

/** Tokens of one physical KV block. */
export const BLOCK_TOKENS = 32;
/** Last positions of a block whose states it keeps for an MTP head: a step has fewer draft tokens. */
export const KEPT_STATES = 16;

/**
 * New tokens of several sequences, flat. Sequence i owns rows `rowStarts[i] … rowStarts[i + 1] - 1` of
 * `tokens`, at positions from `starts[i]` on; its KV history and its new KV rows live in the physical
 * blocks `blocks[blockStarts[i] … blockStarts[i + 1] - 1]`: position p is row `p % 32` of block `p / 32`.
 */
export interface Batch {
  readonly tokens: Int32Array;
  readonly rowStarts: Int32Array;
  readonly starts: Int32Array;
  readonly blocks: Int32Array;
  readonly blockStarts: Int32Array;
  /** Rows of `tokens`, ascending, whose logits are wanted. */
  readonly logitRows: Int32Array;
  /** Rows of `tokens`, ascending, whose final states are wanted: after the last norm, before the head. */
  readonly stateRows: Int32Array;
  /** Empty where the model has no recurrent states. */
  readonly recurrentStates: BatchStates;
  /** Which of the model's adapters each sequence uses, -1 for none; empty where no sequence uses one. */
  readonly adapters: Int32Array;
  /** Absent: no row is of an image. */
  readonly images?: BatchImages;
  /** Time, row and column of each row of `tokens`, for rotary embeddings of several axes; absent: its position, for each axis. */
  readonly rotaryPositions?: Int32Array;
  /**
   * For each row of an image the position after its last token, all of which are stored by this step or before; 0 for others.
   * Attention that looks both ways within images sees as far.
   */
  readonly imageEnds?: Int32Array;
}

/** Rows that stand for what a vision tower gave. */
export interface BatchImages {
  /** Rows of `tokens`, ascending. */
  readonly rows: Int32Array;
  /** `rows.length * hiddenSize` values, in place of embeddings. */
  readonly embeddings: Float32Array;
  /** For each of the first layers as many values, which are added to the residual stream after it. */
  readonly deepstack: readonly Float32Array[];
}

/** What a vision tower makes of a picture: see `BatchImages`. */
export interface ImageFeatures {
  readonly embeddings: Float32Array;
  readonly deepstack: readonly Float32Array[];
}

/** A picture on its way through the vision tower. Its features have the same bits, whatever the pieces. */
export interface ImageRun {
  /** Multiply-adds that are left, about; 0 once `features` are there. */
  readonly left: number;
  readonly features: ImageFeatures | undefined;
  /**
   * Computes the next pieces, of about as much work, and at least one. Between steps, one call at a time. Throws what
   * `image-failures.ts` names, or any other error of this image alone.
   */
  advance(work: number): Promise<void>;
  /** Gives its memory back; features that were taken stay. */
  close(): void;
}

/**
 * State slots of recurrent layers. Sequence i starts from the state in slot `from[i]`, or from zeros where that is negative, and
 * its state after row `rows[k]` is stored in slot `slots[k]`, for k from `starts[i]` to `starts[i + 1] - 1`; the last of these
 * rows is the sequence's last.
 */
export interface BatchStates {
  readonly from: Int32Array;
  readonly starts: Int32Array;
  readonly rows: Int32Array;
  readonly slots: Int32Array;
}

export const backendNames = ['cpu', 'cuda', 'reference', 'webgpu'] as const;
export type BackendName = (typeof backendNames)[number];

export interface StepResult {
  /** `logitRows.length * vocabSize` values; valid until the next step. Empty where tokens were sampled. */
  readonly logits: Float32Array;
  /** `stateRows.length * hiddenSize` values; valid until the next step. */
  readonly states: Float32Array;
  /** One for each wanted row, where the backend sampled them itself. */
  readonly sampled?: readonly SampleResult[];
}

/** Begins a step that was prepared, now that its tokens are known. */
export type StartStep = (tokens: Int32Array) => Promise<StepResult>;

export interface Backend {
  /** One of `backendNames`, or any other for a backend that a program brings. */
  readonly name: string;
  /** The GPU, where one computes. */
  readonly device?: string;
  /** A driver has compiled its kernels that may do as it likes: see `self-test.ts`. */
  readonly wantsSelfTest?: boolean;
  readonly blockCount: number;
  /** Absent where the model has no recurrent states. */
  readonly stateSlots?: number | undefined;
  /**
   * Runs one forward pass. Steps never overlap: await one before the next. Given `rows`, a backend whose logits are on a device
   * may sample them itself.
   */
  step(batch: Batch, rows?: readonly SampleRow[]): Promise<StepResult>;
  /**
   * While a step runs: prepares the one after it, whose tokens are not known yet, those of the batch count for nothing. Undefined
   * where it cannot. What is prepared holds until another step begins or
   * memory of blocks changes. Absent where nothing is gained by it.
   */
  prepareStep?(batch: Batch, rows: readonly SampleRow[]): StartStep | undefined;
  /**
   * Runs the MTP head: logits of the token after each sequence's row, of which it has one, and whose position follows those that
   * steps, or calls of this, have computed in the same blocks. What it leaves there is for calls after it; a step
   * overwrites it. Between steps. Absent where the spec has no such head.
   */
  predict?(batch: Batch): Promise<Float32Array>;
  /**
   * Several rounds of `predict` in one call, of which each goes on from the tokens that the one before it sampled: up to `rows[i].length`
   * tokens for sequence i, of which the first is sampled as `rows[i][0]` says, and so on. A draft ends where no token can be sampled, and
   * after the token with which all of them together are less likely than `leastLogprob` says. Rows say how tokens are sampled whichever
   * come before them, and none is of a chain of samplers. All that is computed lies in blocks of the batch. Between steps. There where
   * `predict` is.
   */
  draft?(
    batch: Batch,
    rows: readonly (readonly SampleRow[])[],
    leastLogprob: number,
  ): Promise<readonly (readonly DraftedToken[])[]>;
  /** Begins to run the vision tower; nothing is computed yet. Absent where the spec has none. */
  beginImage?(image: ImageInput): ImageRun;
  /** Samples one token per row of logits; rows never affect each other. */
  readonly sampleRows: SampleRows;
  /** Releases the memory of unused blocks, between steps; their content is lost, their next use commits them again. */
  releaseBlocks(blocks: Int32Array): void;
  /** Absent where the memory of single blocks is committed as they are used. */
  readonly blockMemory?: BlockMemory;
  /** Absent where content of blocks cannot leave the backend. */
  readonly content?: KvContent;
  /** Sets the threads of the next steps; results stay the same. Absent where there is one thread. */
  useThreads?(count: number): void;
  close(): void;
}

/** Memory of KV blocks where it is allocated for many at once. */
export interface BlockMemory {
  readonly capacity: number;
  /**
   * Allocates memory for at least `needed` blocks, releases that of more than `most`, and returns the capacity: below `needed`
   * where the device is out of memory, above `most` where more blocks are in use or the device cannot release it. Between steps.
   */
  fit(needed: number, most: number): Promise<number>;
}

/**
 * Raise it with every change after which a backend computes other bits of keys, values, recurrent states or features of images than
 * before: content that was kept is found by it. test/golden/arithmetic.test.ts fails where that is forgotten, but for features.
 */
export const ARITHMETIC_VERSION = 1;

/**
 * Content of KV blocks and of slots of recurrent states, as bytes that can be kept elsewhere and put back. All between steps: what
 * is given is what was there when the call was made, whatever is written afterwards.
 */
export interface KvContent {
  /** Where it is equal, so are layout and arithmetic: content of one backend is content of the other. */
  readonly format: string;
  readonly blockBytes: number;
  /** 0 where the model has no recurrent states. */
  readonly stateBytes: number;
  /** Of blocks that were written to their last row. Each array is all of its buffer, and the caller's. */
  readBlocks(blocks: Int32Array): Promise<Uint8Array<ArrayBuffer>[]>;
  /** The block holds this from now on. Where `blockMemory` is there, it has room for one block more. */
  writeBlock(block: number, bytes: Uint8Array): void;
  /** Of a slot that a step has written. */
  readState(slot: number): Promise<Uint8Array<ArrayBuffer>>;
  writeState(slot: number, bytes: Uint8Array): void;
}

export const kvTypes = ['f16', 'q8', 'q4'] as const;
export type KvType = (typeof kvTypes)[number];

/** What an MTP head drafted, and how likely it took it for: ln of the probability before penalties, masks and temperature. */
export interface DraftedToken {
  readonly token: number;
  readonly logprob: number;
}

export interface BackendOptions {
  readonly blockCount: number;
  /** Slots for recurrent states, where the model has any. */
  readonly stateSlots?: number;
  /** Called with the share of weights loaded, 0 to 1. */
  readonly onProgress?: (share: number) => void;
}

const DEFAULT_STATE_SLOTS = 16;

export function stateSlotsOf(
  { recurrentStates }: ModelSpec,
  { stateSlots }: BackendOptions,
): number | undefined {
  return recurrentStates.length === 0 ? undefined : (stateSlots ?? DEFAULT_STATE_SLOTS);
}

export type CreateBackend = (
  spec: ModelSpec,
  weights: WeightSource,
  options: BackendOptions,
) => Promise<Backend>;
