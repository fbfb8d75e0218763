// Attention through a latent: queries are brought to it, and what they gather there is brought to values.

import { type AttentionContext, attend } from './attention.ts';
import { applyByHead, applyLinear } from '../linear.ts';
import { normalize } from '../norm.ts';
import { type Rotations, rotate } from '../rope.ts';
import type { LatentAttention } from '../weights.ts';

export function runLatentAttention(
  context: AttentionContext,
  attention: LatentAttention,
  input: Float32Array,
): Float32Array {
  const { headCount, rank, rotatedSize, queryInput } = attention;
  const { normEpsilon } = context.spec;
  const rotations = context.rotations[attention.rope] as Rotations;
  const store = context.cache.store(attention.cache);
  const latent = normalize(applyLinear(attention.latent, input), rank, attention.latentNorm, normEpsilon);
  const keyRotated = applyLinear(attention.keyRotated, input);
  rotate(keyRotated, 1, rotatedSize, rotations);
  store.write(context.rows.slots, joined(latent, rank, keyRotated, rotatedSize));
  const asking =
    queryInput === undefined
      ? input
      : normalize(
          applyLinear(queryInput.down, input),
          queryInput.down.matrix.rows,
          queryInput.norm,
          normEpsilon,
        );
  const content = applyByHead(attention.toLatent, applyLinear(attention.query, asking), headCount);
  const queryRotated = applyLinear(attention.queryRotated, asking);
  rotate(queryRotated, headCount, rotatedSize, rotations);
  const queries = joined(content, rank, queryRotated, rotatedSize);
  const sight = { headCount, headSize: rank + rotatedSize, scale: attention.scale };
  const gathered = attend(sight, queries, store, context.rows);
  return applyLinear(attention.output, applyByHead(attention.toValues, gathered, headCount));
}

/** Runs of both by turns. */
function joined(
  first: Float32Array,
  firstSize: number,
  second: Float32Array,
  secondSize: number,
): Float32Array {
  const runs = first.length / firstSize;
  const size = firstSize + secondSize;
  const result = new Float32Array(runs * size);
  for (let run = 0; run < runs; run++) {
    result.set(first.subarray(run * firstSize, (run + 1) * firstSize), run * size);
    result.set(second.subarray(run * secondSize, (run + 1) * secondSize), run * size + firstSize);
  }
  return result;
}
