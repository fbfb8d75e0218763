// A mixture of experts: which of them each row goes through, and how much each counts.

import { sigmoid } from '../../../model/activation-curves.ts';
import type { MlpSpec, MoeSpec, RouterSpec } from '../../../model/spec.ts';
import { applyLinear } from '../linear.ts';
import { normalize } from '../norm.ts';
import type { RunBody } from '../step-context.ts';
import { softmax } from '../vector.ts';
import type { Loaded } from '../weights.ts';
import { mlp } from './mlp.ts';

type Router = Loaded<RouterSpec>;

interface Choice {
  readonly expert: number;
  readonly weight: number;
}

export const runMoe: RunBody<MoeSpec> = ({ spec }, { experts, scalesInput, router }, input, stream) => {
  const output = new Float32Array(input.length);
  const size = spec.hiddenSize;
  for (const [row, choices] of route(router, input, stream, spec.normEpsilon).entries()) {
    const at = row * size;
    const from = input.subarray(at, at + size);
    for (const { expert, weight } of choices) {
      const body = experts[expert] as Loaded<MlpSpec>;
      const scaled = scalesInput === true;
      const given = mlp(body, scaled ? from.map((value) => value * weight) : from, [row]);
      for (const [index, value] of given.entries()) {
        output[at + index] = (output[at + index] as number) + (scaled ? 1 : weight) * value;
      }
    }
  }
  return output;
};

function route(router: Router, input: Float32Array, stream: Float32Array, epsilon: number): Choice[][] {
  const { linear, norm } = router;
  const { columns, rows: count } = linear.matrix;
  const seen = norm === undefined ? input : normalize(stream.slice(), columns, norm, epsilon);
  const logits = applyLinear(linear, seen);
  return Array.from({ length: logits.length / count }, (_, row) =>
    choose(router, Float64Array.from(logits.subarray(row * count, (row + 1) * count))),
  );
}

function choose(router: Router, logits: Float64Array): Choice[] {
  const { routingBias, expertScales } = router;
  const scores = router.score === 'softmax' ? softmax(logits) : logits.map(sigmoid);
  const wanted = scores.map((score, expert) => score + (routingBias?.[expert] ?? 0));
  const allowed = router.groups === undefined ? wanted : bestGroups(router.groups, wanted);
  const chosen = best([...allowed.keys()], (expert) => allowed[expert] as number, router.used);
  const sum = chosen.reduce((total, expert) => total + (scores[expert] as number), 0);
  const scale = router.scale / (router.normalized ? sum : 1);
  return chosen.map((expert) => ({
    expert,
    weight: (scores[expert] as number) * scale * (expertScales?.[expert] ?? 1),
  }));
}

/** Excludes the experts of all other groups. */
function bestGroups(groups: NonNullable<RouterSpec['groups']>, wanted: Float64Array): Float64Array {
  const size = wanted.length / groups.count;
  const scores = Array.from({ length: groups.count }, (_, group) => {
    const sorted = [...wanted.subarray(group * size, (group + 1) * size)].sort((a, b) => b - a);
    return sorted.slice(0, groups.by === 'best' ? 1 : 2).reduce((sum, score) => sum + score, 0);
  });
  const kept = new Set(best([...scores.keys()], (group) => scores[group] as number, groups.used));
  return wanted.map((score, expert) =>
    kept.has(Math.floor(expert / size)) ? score : Number.NEGATIVE_INFINITY,
  );
}

/** The highest scores first; ties in order. */
function best(candidates: readonly number[], score: (candidate: number) => number, count: number): number[] {
  return candidates.toSorted((a, b) => score(b) - score(a) || a - b).slice(0, count);
}
