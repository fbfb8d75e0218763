// Causal attention through block tables, with grouped key/value heads, windows and soft caps.

import type { LayerSpec, ModelSpec } from '../../model/spec.ts';
import { BLOCK_TOKENS } from '../backend.ts';
import { type BatchRows, slotAt } from './batch-rows.ts';
import type { KvLayer } from './kv-cache.ts';
import { addScaled, dot, softcap } from './vector.ts';

/** One row of heads a batch row: what each query head gathers from the values it may see. */
export function attend(
  spec: ModelSpec,
  layer: Pick<LayerSpec, 'window'>,
  queries: Float32Array,
  cache: KvLayer,
  rows: BatchRows,
): Float32Array {
  const { headCount, headSize } = spec;
  const output = new Float32Array(queries.length);
  const gathered = new Float64Array(headSize);
  for (const [row, position] of rows.positions.entries()) {
    const slots = visibleSlots(rows.tables[row] as Int32Array, position, layer.window);
    for (let head = 0; head < headCount; head++) {
      const at = (row * headCount + head) * headSize;
      const weights = attentionWeights(spec, queries, at, cache, slots, head);
      gatherValues(spec, weights, cache, slots, head, gathered);
      output.set(gathered, at);
    }
  }
  return output;
}

/** Slots of the tokens that a token at `position` sees, oldest first, itself last. */
function visibleSlots(table: Int32Array, position: number, window: number | undefined): Int32Array {
  const first = window === undefined ? 0 : Math.max(0, position - window + 1);
  return Int32Array.from({ length: position - first + 1 }, (_, index) => slotAt(table, first + index));
}

/** Where the head that query head `head` shares with its group starts in a slot's block. */
function kvOffset({ headCount, kvHeadCount, headSize }: ModelSpec, slot: number, head: number): number {
  const kvHead = Math.floor((head * kvHeadCount) / headCount);
  return ((slot % BLOCK_TOKENS) * kvHeadCount + kvHead) * headSize;
}

function attentionWeights(
  spec: ModelSpec,
  queries: Float32Array,
  queryAt: number,
  cache: KvLayer,
  slots: Int32Array,
  head: number,
): Float64Array {
  const scores = new Float64Array(slots.length);
  for (let index = 0; index < slots.length; index++) {
    const slot = slots[index] as number;
    const { keys } = cache.blockOf(slot);
    const score =
      dot(queries, queryAt, keys, kvOffset(spec, slot, head), spec.headSize) * spec.attentionScale;
    scores[index] = spec.attentionSoftcap === undefined ? score : softcap(score, spec.attentionSoftcap);
  }
  return softmax(scores);
}

/** In place; the largest score is subtracted first so that no exponential overflows. */
function softmax(scores: Float64Array): Float64Array {
  let largest = Number.NEGATIVE_INFINITY;
  for (const score of scores) largest = Math.max(largest, score);
  let sum = 0;
  for (let index = 0; index < scores.length; index++) {
    const weight = Math.exp((scores[index] as number) - largest);
    scores[index] = weight;
    sum += weight;
  }
  for (let index = 0; index < scores.length; index++) scores[index] = (scores[index] as number) / sum;
  return scores;
}

function gatherValues(
  spec: ModelSpec,
  weights: Float64Array,
  cache: KvLayer,
  slots: Int32Array,
  head: number,
  into: Float64Array,
): void {
  into.fill(0);
  for (let index = 0; index < slots.length; index++) {
    const slot = slots[index] as number;
    const { values } = cache.blockOf(slot);
    addScaled(into, values, kvOffset(spec, slot, head), weights[index] as number);
  }
}
