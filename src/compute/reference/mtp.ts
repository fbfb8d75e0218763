// The MTP head: at position p it reads the token there and the model's state of position p - 1.

import type { MtpSpec } from '../../model/spec.ts';
import type { Batch } from '../backend.ts';
import { slotAt } from './batch-rows.ts';
import { runBranches } from './branches.ts';
import { runBody } from './layers/registry.ts';
import { applyLinear } from './linear.ts';
import { normalize } from './norm.ts';
import type { StepContext } from './step-context.ts';
import { addInto } from './vector.ts';
import type { Loaded } from './weights.ts';

type Mtp = Loaded<MtpSpec>;

/** What the head's layer reads, and the residual stream that it adds to. */
interface LayerInput {
  readonly joined: Float32Array;
  readonly stream: Float32Array;
}

/** Stores what the head keeps of a step: keys and values, and `states`, those of its rows. */
export function feedMtp(
  model: StepContext,
  mtp: Mtp,
  { rowStarts }: Batch,
  embedded: Float32Array,
  states: Float32Array,
): void {
  const context = ofHead(model, mtp);
  // As a step would find them that begins behind these rows.
  for (let i = 0; i < states.length; i++) states[i] = rounded(states[i] as number);
  const { hiddenSize } = context.spec;
  const first = new Set(rowStarts);
  const before = (row: number) =>
    first.has(row) ? keptBefore(context, row) : states.subarray((row - 1) * hiddenSize, row * hiddenSize);
  runLayer(context, mtp, joined(context, mtp, embedded, before));
  keep(context, states);
}

/** One row a sequence: the states of which logits are made. */
export function runMtp(model: StepContext, mtp: Mtp, embedded: Float32Array): Float32Array {
  const context = ofHead(model, mtp);
  const { hiddenSize, normEpsilon } = context.spec;
  const input = joined(context, mtp, embedded, (row) => keptBefore(context, row));
  const stream = runLayer(context, mtp, input);
  const states = normalize(stream.slice(), hiddenSize, mtp.finalNorm, normEpsilon);
  keep(context, (mtp.beforeNorm ? stream : states).map(rounded));
  return states;
}

/** Logits of all tokens, of those of the head's own. */
export function spreadLogits({ tokens }: Mtp, vocabSize: number, logits: Float32Array): Float32Array {
  if (tokens === undefined) return logits;
  const rows = logits.length / tokens.length;
  const all = new Float32Array(rows * vocabSize).fill(Number.NEGATIVE_INFINITY);
  for (let row = 0; row < rows; row++) {
    for (const [at, token] of tokens.entries()) {
      all[row * vocabSize + token] = logits[row * tokens.length + at] as number;
    }
  }
  return all;
}

function ofHead(model: StepContext, { normEpsilon = model.spec.normEpsilon }: Mtp): StepContext {
  return { ...model, spec: { ...model.spec, normEpsilon } };
}

function joined(
  { spec: { hiddenSize, normEpsilon } }: StepContext,
  mtp: Mtp,
  embedded: Float32Array,
  stateBefore: (row: number) => Float32Array,
): LayerInput {
  const rows = embedded.length / hiddenSize;
  const embeddings = normalize(embedded.slice(), hiddenSize, mtp.embeddingNorm, normEpsilon);
  const both = new Float32Array(2 * embedded.length);
  const stream = new Float32Array(embedded.length);
  for (let row = 0; row < rows; row++) {
    const before = stateBefore(row);
    const state = normalize(before.slice(), hiddenSize, mtp.stateNorm, normEpsilon);
    stream.set(mtp.addsToNormed ? state : before, row * hiddenSize);
    const embedding = embeddings.subarray(row * hiddenSize, (row + 1) * hiddenSize);
    const [first, second] = mtp.stateFirst ? [state, embedding] : [embedding, state];
    both.set(first, 2 * row * hiddenSize);
    both.set(second, (2 * row + 1) * hiddenSize);
  }
  return { joined: both, stream: mtp.projection === undefined ? stream : applyLinear(mtp.projection, both) };
}

/** Gives the residual stream. */
function runLayer(
  context: StepContext,
  { layer, projection }: Mtp,
  { joined: both, stream }: LayerInput,
): Float32Array {
  const [attention, ...others] = layer.branches;
  const body = attention?.parts[0]?.body;
  if (projection !== undefined || body === undefined) {
    runBranches(context, layer, stream);
  } else {
    addInto(stream, runBody(context, body, both, stream));
    runBranches(context, { branches: others }, stream);
  }
  return stream;
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
