// MLA with absorbed W_UK and W_UV: attention runs over the compressed KV.

import type { MlaSpec } from '../../../model/spec.ts';
import { applyByHead, applyLinear } from '../linear.ts';
import { normalize } from '../norm.ts';
import { type Rotations, rotate } from '../rope.ts';
import type { RunBody } from '../step-context.ts';
import { attend } from './attention.ts';

export const runMla: RunBody<MlaSpec> = (context, attention, input) => {
  const { headCount, kvLoraRank, qkRopeHeadDim, queryInput } = attention;
  const { normEpsilon } = context.spec;
  const rotations = context.rotations[attention.rope] as Rotations;
  const store = context.cache.store(attention.cache);
  const compressed = normalize(
    applyLinear(attention.kvDown, input),
    kvLoraRank,
    attention.kvNorm,
    normEpsilon,
  );
  const keyRope = applyLinear(attention.keyRope, input);
  rotate(keyRope, 1, qkRopeHeadDim, rotations);
  store.write(context.rows.slots, joined(compressed, kvLoraRank, keyRope, qkRopeHeadDim));
  const asking =
    queryInput === undefined
      ? input
      : normalize(
          applyLinear(queryInput.down, input),
          queryInput.down.matrix.rows,
          queryInput.norm,
          normEpsilon,
        );
  const content = applyByHead(attention.keyUp, applyLinear(attention.query, asking), headCount);
  const queryRope = applyLinear(attention.queryRope, asking);
  rotate(queryRope, headCount, qkRopeHeadDim, rotations);
  const queries = joined(content, kvLoraRank, queryRope, qkRopeHeadDim);
  const visibility = { ...attention, headSize: kvLoraRank + qkRopeHeadDim };
  const gathered = attend(visibility, queries, store, context.rows);
  return applyLinear(attention.output, applyByHead(attention.valueUp, gathered, headCount));
};

/** Interleaves runs of both. */
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
