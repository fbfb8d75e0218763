// The MTP head: at position p it reads the token there and the model's state of position p - 1.

import type { MtpSpec } from '../../model/spec.ts';
import type { Batch } from '../backend.ts';
import { slotAt } from './batch-rows.ts';
import { runBranches } from './branches.ts';
import { applyLinear } from './linear.ts';
import { normalize } from './norm.ts';
import type { StepContext } from './step-context.ts';
import type { Loaded } from './weights.ts';

type Mtp = Loaded<MtpSpec>;

/** Stores what the head keeps of a step: keys and values, and `states`, those of its rows. */
export function feedMtp(
  context: StepContext,
  mtp: Mtp,
  { rowStarts }: Batch,
  embedded: Float32Array,
  states: Float32Array,
): void {
  // As a step would find them that begins behind these rows.
  for (let i = 0; i < states.length; i++) states[i] = rounded(states[i] as number);
  const { hiddenSize } = context.spec;
  const first = new Set(rowStarts);
  const before = (row: number) =>
    first.has(row) ? keptBefore(context, row) : states.subarray((row - 1) * hiddenSize, row * hiddenSize);
  runBranches(context, mtp.layer, joined(context, mtp, embedded, before));
  keep(context, states);
}

/** One row a sequence: the states of which logits are made. */
export function runMtp(context: StepContext, mtp: Mtp, embedded: Float32Array): Float32Array {
  const { hiddenSize, normEpsilon } = context.spec;
  const stream = joined(context, mtp, embedded, (row) => keptBefore(context, row));
  runBranches(context, mtp.layer, stream);
  const states = normalize(stream.slice(), hiddenSize, mtp.finalNorm, normEpsilon);
  keep(context, (mtp.beforeNorm ? stream : states).map(rounded));
  return states;
}

/** What the head's layer reads. */
function joined(
  { spec: { hiddenSize, normEpsilon } }: StepContext,
  mtp: Mtp,
  embedded: Float32Array,
  stateBefore: (row: number) => Float32Array,
): Float32Array {
  const rows = embedded.length / hiddenSize;
  const embeddings = normalize(embedded.slice(), hiddenSize, mtp.embeddingNorm, normEpsilon);
  const both = new Float32Array(2 * embedded.length);
  for (let row = 0; row < rows; row++) {
    const state = normalize(stateBefore(row).slice(), hiddenSize, mtp.stateNorm, normEpsilon);
    const embedding = embeddings.subarray(row * hiddenSize, (row + 1) * hiddenSize);
    const [first, second] = mtp.stateFirst ? [state, embedding] : [embedding, state];
    both.set(first, 2 * row * hiddenSize);
    both.set(second, (2 * row + 1) * hiddenSize);
  }
  return applyLinear(mtp.projection, both);
}

/** Zeros before the first position: nothing sees what follows from them. */
function keptBefore({ spec, cache, rows }: StepContext, row: number): Float32Array {
  const position = rows.positions[row] as number;
  if (position === 0) return new Float32Array(spec.hiddenSize);
  return cache.state(slotAt(rows.tables[row] as Int32Array, position - 1));
}

/** In the order of rows: those of one block that share a place are the later ones' in the end. */
function keep({ spec: { hiddenSize }, cache, rows }: StepContext, states: Float32Array): void {
  for (const [row, slot] of rows.slots.entries()) {
    cache.state(slot).set(states.subarray(row * hiddenSize, (row + 1) * hiddenSize));
  }
}

const word = new Uint32Array(1);
const float = new Float32Array(word.buffer);

/** To the nearest bfloat16, ties to even. */
function rounded(value: number): number {
  if (Number.isNaN(value)) return value;
  float[0] = value;
  const bits = word[0] as number;
  word[0] = (bits + 0x7fff + ((bits >>> 16) & 1)) & 0xffff0000;
  return float[0];
}
