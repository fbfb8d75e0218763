// Attention through block tables, with grouped key/value heads, windows, soft caps and sinks.

import { sigmoid } from '../../../model/activation-curves.ts';
import type { AttentionSpec, CacheSpec, HeadNormSpec } from '../../../model/spec.ts';
import { BLOCK_TOKENS } from '../../backend.ts';
import { type BatchRows, slotAt } from '../batch-rows.ts';
import type { KvStore } from '../kv-cache.ts';
import { applyLinear } from '../linear.ts';
import { normalize } from '../norm.ts';
import { type Rotations, rotate } from '../rope.ts';
import type { RunBody, StepContext } from '../step-context.ts';
import { addScaled, dot, softcap, softmax } from '../vector.ts';
import type { Loaded } from '../weights.ts';

type Attention = Loaded<AttentionSpec>;
type HeadNorm = Loaded<HeadNormSpec>;

export const runAttention: RunBody<AttentionSpec> = (context, attention, input) => {
  const { cache, growth, stored } = attention;
  const { headCount } = context.spec.caches[cache] as CacheSpec;
  const store = context.cache.store(cache);
  const queries = place(
    context,
    attention,
    applyLinear(attention.query, input),
    attention.headCount,
    attention.queryNorm,
  );
  if (growth !== undefined) grow(queries, growth, context.rows.positions);
  if (stored !== undefined) {
    const { key, value, keyNorm, valueNorm } = stored;
    const keys = applyLinear(key, input);
    const values = value === undefined ? keys.slice() : applyLinear(value, input);
    if (valueNorm !== undefined) normalizeHeads(context, attention, values, headCount, valueNorm);
    // Every new row is stored before any is read: rows of one sequence see each other.
    store.write(context.rows.slots, place(context, attention, keys, headCount, keyNorm), values);
  }
  const attended = attend(attention, queries, store, context.rows, attention.sinks);
  if (attention.gate === undefined) return applyLinear(attention.output, attended);
  const gate = applyLinear(attention.gate, input);
  return applyLinear(
    attention.output,
    attended.map((value, index) => value * sigmoid(gate[index] as number)),
  );
};

/** Normalizes and rotates heads of queries or keys, in place. */
function place(
  context: StepContext,
  attention: Attention,
  heads: Float32Array,
  headCount: number,
  norm: HeadNorm | undefined,
): Float32Array {
  const { headSize, rope } = attention;
  const late = attention.normsAfterRope === true;
  if (norm !== undefined && !late) normalizeHeads(context, attention, heads, headCount, norm);
  if (rope !== undefined) rotate(heads, headCount, headSize, context.rotations[rope] as Rotations);
  if (norm !== undefined && late) normalizeHeads(context, attention, heads, headCount, norm);
  return heads;
}

function normalizeHeads(
  { spec: { normEpsilon } }: StepContext,
  { headSize }: Attention,
  heads: Float32Array,
  headCount: number,
  { norm, over }: HeadNorm,
): void {
  normalize(heads, over === 'all' ? headCount * headSize : headSize, norm, normEpsilon);
}

function grow(
  queries: Float32Array,
  { weight, length, shift }: NonNullable<AttentionSpec['growth']>,
  positions: Int32Array,
): void {
  const size = queries.length / positions.length;
  for (const [row, position] of positions.entries()) {
    const factor = 1 + weight * Math.log1p(Math.floor((position + shift) / length));
    for (let i = row * size; i < (row + 1) * size; i++) queries[i] = (queries[i] as number) * factor;
  }
}

type Visibility = Pick<
  AttentionSpec,
  | 'headCount'
  | 'headSize'
  | 'bidirectional'
  | 'imagesBothWays'
  | 'window'
  | 'chunk'
  | 'skipsFirst'
  | 'scale'
  | 'softcap'
>;

/** A row of heads for each batch row. */
export function attend(
  visibility: Visibility,
  queries: Float32Array,
  store: KvStore,
  rows: BatchRows,
  sinks?: Float32Array,
): Float32Array {
  const { headCount, headSize } = visibility;
  const valueSize = store.valuesInKeys ?? headSize;
  const output = new Float32Array(rows.positions.length * headCount * valueSize);
  const gathered = new Float64Array(valueSize);
  for (const [row, position] of rows.positions.entries()) {
    const slots = visibleSlots(visibility, rows, row, position);
    for (let head = 0; head < headCount; head++) {
      const place = row * headCount + head;
      const kvHead = Math.floor((head * store.headCount) / headCount);
      const weights = attentionWeights(
        visibility,
        queries,
        place * headSize,
        store,
        slots,
        kvHead,
        sinks?.[head],
      );
      gatherValues(weights, store, slots, kvHead, gathered);
      output.set(gathered, place * valueSize);
    }
  }
  return output;
}

/** Slots of the tokens that a row at `position` sees. */
function visibleSlots(visibility: Visibility, rows: BatchRows, row: number, position: number): Int32Array {
  const { bidirectional, imagesBothWays, window = Number.POSITIVE_INFINITY, chunk, skipsFirst } = visibility;
  const inWindow = Math.max(skipsFirst ? Math.min(1, position) : 0, position - window + 1);
  const first = chunk === undefined ? inWindow : Math.max(inWindow, position - (position % chunk));
  const last = bidirectional ? Math.min(rows.ends[row] as number, position + window - 1) : position;
  const end = Math.max(last + 1, imagesBothWays ? (rows.imageEnds?.[row] ?? 0) : 0);
  const table = rows.tables[row] as Int32Array;
  return Int32Array.from({ length: end - first }, (_, index) => slotAt(table, first + index));
}

function headOffset({ headCount, headSize }: KvStore, slot: number, head: number): number {
  return ((slot % BLOCK_TOKENS) * headCount + head) * headSize;
}

function attentionWeights(
  spec: Visibility,
  queries: Float32Array,
  queryAt: number,
  store: KvStore,
  slots: Int32Array,
  kvHead: number,
  sink: number | undefined,
): Float64Array {
  const scores = new Float64Array(slots.length);
  for (let index = 0; index < slots.length; index++) {
    const slot = slots[index] as number;
    const { keys } = store.blockOf(slot);
    const score = dot(queries, queryAt, keys, headOffset(store, slot, kvHead), spec.headSize) * spec.scale;
    scores[index] = spec.softcap === undefined ? score : softcap(score, spec.softcap);
  }
  return softmax(scores, sink);
}

function gatherValues(
  weights: Float64Array,
  store: KvStore,
  slots: Int32Array,
  kvHead: number,
  into: Float64Array,
): void {
  into.fill(0);
  for (let index = 0; index < slots.length; index++) {
    const slot = slots[index] as number;
    const { values } = store.blockOf(slot);
    addScaled(into, values, headOffset(store, slot, kvHead), weights[index] as number);
  }
}
