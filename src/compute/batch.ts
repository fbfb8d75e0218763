// Makes batches and checks them before a backend runs: shapes, ranges, and that no step writes into a block which another table
// of the batch contains.

import type { ModelSpec } from '../model/spec.ts';
import { isEncoder } from '../model/spec-walk.ts';
import { type Batch, BLOCK_TOKENS } from './backend.ts';
import { batchImages, type SequenceImages } from './batch-images.ts';
import { batchStates, checkStates, type StateUse } from './batch-states.ts';

export interface BatchLimits {
  readonly blockCount: number;
  /** Where the model has recurrent states. */
  readonly stateSlots?: number | undefined;
  /** Default 0. */
  readonly adapterCount?: number;
  readonly vocabSize: number;
  readonly contextLength: number;
  /** Where the model has a vision tower; absent: no row is of an image. */
  readonly hiddenSize?: number | undefined;
  /** An encoder: a text is all in one step. */
  readonly wholeTexts?: boolean;
}

export function batchLimits(
  spec: ModelSpec,
  { blockCount, stateSlots }: Pick<BatchLimits, 'blockCount' | 'stateSlots'>,
): BatchLimits {
  return {
    blockCount,
    stateSlots,
    adapterCount: spec.adapters?.length ?? 0,
    vocabSize: spec.vocabSize,
    contextLength: spec.contextLength,
    hiddenSize: spec.vision === undefined ? undefined : spec.hiddenSize,
    wholeTexts: isEncoder(spec),
  };
}

export interface BatchSequence {
  readonly tokens: readonly number[] | Int32Array;
  /** Position of the first new token. */
  readonly start: number;
  readonly blocks: readonly number[] | Int32Array;
  readonly wantLogits: WantedRows;
  /** Default none. */
  readonly wantStates?: WantedRows;
  /** Where the model has recurrent states: see BatchStates. */
  readonly state?: StateUse;
  /** Default none. */
  readonly adapter?: number | undefined;
  /** Where the prompt has any; default none. */
  readonly images?: SequenceImages | undefined;
}

type WantedRows = 'last' | 'all' | 'none';

export function buildBatch(sequences: readonly BatchSequence[]): Batch {
  const rowStarts = offsets(sequences.map(({ tokens }) => tokens.length));
  const wantedRows = (wanted: (sequence: BatchSequence) => WantedRows): Int32Array =>
    Int32Array.from(
      sequences.flatMap((sequence, index) => {
        const first = rowStarts[index] as number;
        const rows = Array.from(sequence.tokens, (_, row) => first + row);
        return { all: rows, last: rows.slice(-1), none: [] }[wanted(sequence)];
      }),
    );
  return {
    tokens: Int32Array.from(sequences.flatMap(({ tokens }) => [...tokens])),
    rowStarts,
    starts: Int32Array.from(sequences, ({ start }) => start),
    blocks: Int32Array.from(sequences.flatMap(({ blocks }) => [...blocks])),
    blockStarts: offsets(sequences.map(({ blocks }) => blocks.length)),
    logitRows: wantedRows(({ wantLogits }) => wantLogits),
    stateRows: wantedRows(({ wantStates = 'none' }) => wantStates),
    recurrentStates: batchStates(
      sequences.map(({ state }) => state),
      rowStarts,
    ),
    adapters: batchAdapters(sequences.map(({ adapter }) => adapter)),
    ...batchImages(sequences.map(({ start, tokens, images }) => ({ start, count: tokens.length, images }))),
  };
}

export function batchAdapters(adapters: readonly (number | undefined)[]): Int32Array {
  if (adapters.every((adapter) => adapter === undefined)) return new Int32Array();
  return Int32Array.from(adapters, (adapter) => adapter ?? -1);
}

/** `Batch.adapters` by row. */
export function rowAdapters({ adapters, rowStarts, tokens }: Batch): Int32Array {
  const rows = new Int32Array(adapters.length === 0 ? 0 : tokens.length);
  for (const [sequence, adapter] of adapters.entries()) {
    rows.fill(adapter, rowStarts[sequence], rowStarts[sequence + 1]);
  }
  return rows;
}

function offsets(lengths: readonly number[]): Int32Array {
  const result = new Int32Array(lengths.length + 1);
  for (const [index, length] of lengths.entries()) result[index + 1] = (result[index] as number) + length;
  return result;
}

/** Throws where a batch breaks the contract. */
export function checkBatch(batch: Batch, limits: BatchLimits, uses = new BlockUses(limits.blockCount)): void {
  checkOffsets('rowStarts', batch.rowStarts, batch.starts.length, batch.tokens.length);
  checkOffsets('blockStarts', batch.blockStarts, batch.starts.length, batch.blocks.length);
  checkRange('token', batch.tokens, limits.vocabSize);
  checkRange('block', batch.blocks, limits.blockCount);
  checkWantedRows('logit row', batch.logitRows, batch.tokens.length);
  checkWantedRows('state row', batch.stateRows, batch.tokens.length);
  checkAdapters(batch, limits.adapterCount ?? 0);
  checkImages(batch, limits.hiddenSize);
  if (limits.stateSlots !== undefined) checkStates(batch, limits.stateSlots);
  uses.count(batch.blocks);
  for (let sequence = 0; sequence < batch.starts.length; sequence++) {
    const count = (batch.rowStarts[sequence + 1] as number) - (batch.rowStarts[sequence] as number);
    checkSequence(batch, sequence, count, limits, uses);
  }
}

/** The same for `Backend.predict`, and for `Backend.draft`, with the number of tokens that each sequence gets. */
export function checkPredictBatch(
  batch: Batch,
  limits: BatchLimits,
  uses = new BlockUses(limits.blockCount),
  rounds?: readonly number[],
): void {
  // Its layer has no recurrent state.
  checkBatch(batch, { ...limits, stateSlots: undefined }, uses);
  if (batch.tokens.length !== batch.starts.length)
    throw new Error('batch: predictions are made one row a sequence');
  if (batch.images !== undefined) throw new Error('batch: what follows an image row is not predicted');
  for (const start of batch.starts) {
    if (start < 1) throw new Error('batch: nothing comes before position 0 to predict from');
  }
  if (rounds === undefined) return;
  if (rounds.length !== batch.starts.length) throw new Error('batch: each sequence must have its draft');
  for (const [sequence, count] of rounds.entries()) {
    if (count < 1) throw new Error(`batch: sequence ${sequence} gets no draft`);
    checkSequence(batch, sequence, count, limits, uses);
  }
}

function checkAdapters({ adapters, starts }: Batch, count: number): void {
  if (adapters.length === 0) return;
  if (adapters.length !== starts.length) throw new Error('batch: adapters must be given for every sequence');
  for (const adapter of adapters) {
    if (adapter >= -1 && adapter < count) continue;
    throw new Error(`batch: adapter ${adapter} is none of the model's ${count}`);
  }
}

function checkImages({ images, rotaryPositions, imageEnds, tokens }: Batch, hiddenSize = 0): void {
  if (images !== undefined) {
    checkWantedRows('image row', images.rows, tokens.length);
    const size = images.rows.length * hiddenSize;
    if (size === 0 || [images.embeddings, ...images.deepstack].some(({ length }) => length !== size)) {
      throw new Error('batch: images must have an embedding for each of their rows');
    }
  }
  const axes = rotaryPositions?.length ?? 3 * tokens.length;
  if (axes !== 3 * tokens.length) throw new Error('batch: each row must have three rotary positions');
  if ((imageEnds ?? tokens).length !== tokens.length) {
    throw new Error('batch: each row must say where its image ends');
  }
}

/**
 * Which blocks occur just once in a batch's tables. A backend keeps one for all its steps: every batch has marks of its own, so
 * that nothing is cleared between them.
 */
export class BlockUses {
  readonly #marks: Float64Array;
  #once = 0;

  constructor(blockCount: number) {
    this.#marks = new Float64Array(blockCount);
  }

  /** Replaces the last batch. All blocks must be within the count. */
  count(blocks: Int32Array): void {
    this.#once += 2;
    const once = this.#once;
    const marks = this.#marks;
    for (let entry = 0; entry < blocks.length; entry++) {
      const block = blocks[entry] as number;
      marks[block] = (marks[block] as number) < once ? once : once + 1;
    }
  }

  isSingle(block: number): boolean {
    return this.#marks[block] === this.#once;
  }
}

function checkOffsets(name: string, starts: Int32Array, sequences: number, end: number): void {
  if (starts.length !== sequences + 1 || starts[0] !== 0 || starts[sequences] !== end) {
    throw new Error(`batch: ${name} must hold ${sequences + 1} offsets from 0 to ${end}`);
  }
  for (let sequence = 0; sequence < sequences; sequence++) {
    if ((starts[sequence] as number) < (starts[sequence + 1] as number)) continue;
    throw new Error(`batch: ${name} gives nothing to sequence ${sequence}`);
  }
}

export function checkRange(name: string, values: Int32Array, limit: number): void {
  for (let index = 0; index < values.length; index++) {
    const value = values[index] as number;
    if (value < 0 || value >= limit)
      throw new Error(`batch: ${name} ${value} is not within 0 to ${limit - 1}`);
  }
}

function checkWantedRows(name: string, wanted: Int32Array, rows: number): void {
  checkRange(name, wanted, rows);
  for (let index = 1; index < wanted.length; index++) {
    if ((wanted[index - 1] as number) < (wanted[index] as number)) continue;
    throw new Error(`batch: ${name}s must ascend`);
  }
}

/** `count`: of rows that are computed. */
function checkSequence(
  batch: Batch,
  sequence: number,
  count: number,
  limits: BatchLimits,
  uses: BlockUses,
): void {
  const start = batch.starts[sequence] as number;
  const tableStart = batch.blockStarts[sequence] as number;
  const tableLength = (batch.blockStarts[sequence + 1] as number) - tableStart;
  if (start < 0 || start + count > limits.contextLength) {
    throw new Error(
      `batch: sequence ${sequence} reaches from position ${start} to ${start + count - 1}, ` +
        `past the context of ${limits.contextLength}`,
    );
  }
  if (limits.wholeTexts && start !== 0) {
    throw new Error(`batch: sequence ${sequence} begins at position ${start}, but its text is never cut`);
  }
  if (start + count > tableLength * BLOCK_TOKENS) {
    throw new Error(
      `batch: sequence ${sequence} needs ${Math.ceil((start + count) / BLOCK_TOKENS)} blocks ` +
        `but its table has ${tableLength}`,
    );
  }
  const firstWritten = Math.floor(start / BLOCK_TOKENS);
  const lastWritten = Math.floor((start + count - 1) / BLOCK_TOKENS);
  for (let entry = firstWritten; entry <= lastWritten; entry++) {
    const block = batch.blocks[tableStart + entry] as number;
    if (uses.isSingle(block)) continue;
    throw new Error(`batch: sequence ${sequence} would write into block ${block}, which is shared`);
  }
}
