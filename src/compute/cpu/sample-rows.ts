// Samples in native code: packs rows into flat arrays and unpacks results. Random numbers are made here, so there is one
// generator.

import { MAX_LOGPROBS } from '../../sampling/parameter-checks.ts';
import { uniformAt } from '../../sampling/random.ts';
import type { SampleResult, SampleRow, SampleRows } from '../../sampling/sample-row.ts';
import { withChains } from '../../sampling/sampler.ts';
import { needsCounts } from '../../sampling/token-counts.ts';
import type { Addon, ModelHandle, SampleJob, SampleOutput } from './binding.ts';

const NONE = new Int32Array(0);
/** Columns of a job's `reals` and `integers`. */
const REALS = 8;
const INTEGERS = 4;
/** Native code needs a mass above 0. Weights sum to less than 2^64, so that this share still selects one token. */
const LEAST_SHARE = 2 ** -64;

/** `threads`: a model's, or a number of its own; results do not depend on it. */
export function createNativeSampler(addon: Addon, threads: ModelHandle | number): SampleRows {
  const sampler = addon.createSampler(threads);
  return withChains((logits, vocabSize, rows) => {
    const output = emptyOutput(rows.length);
    addon.sampleRows(sampler, logits, vocabSize, packRows(rows), output);
    return rows.map((row, index) => readResult(row, output, index));
  });
}

function emptyOutput(rows: number): SampleOutput {
  return {
    tokens: new Int32Array(rows),
    logprobs: new Float32Array(rows),
    ranks: new Int32Array(rows),
    topCounts: new Int32Array(rows),
    topTokens: new Int32Array(rows * MAX_LOGPROBS),
    topLogprobs: new Float32Array(rows * MAX_LOGPROBS),
  };
}

function packRows(rows: readonly SampleRow[]): SampleJob {
  const counted = rows.map(countsOf);
  const biases = rows.map(({ parameters }) => parameters.logitBias);
  const biased = joined(biases.map((list) => list.map(({ token }) => token)));
  const forbidden = joined(rows.map((row) => row.forbidden));
  const masks = packMasks(rows);
  const reals = new Float64Array(rows.length * REALS);
  const integers = new Int32Array(rows.length * INTEGERS);
  for (const [index, row] of rows.entries()) {
    const { topK, logprobs = -1 } = row.parameters;
    reals.set(realsOf(row), index * REALS);
    const { given = -1 } = row;
    integers.set([topK, logprobs, masks.starts[index] as number, given], index * INTEGERS);
  }
  return {
    reals,
    integers,
    penalized: counted.map((counts) => counts?.ids ?? NONE),
    generated: counted.map((counts) => counts?.generated ?? NONE),
    biasStarts: biased.starts,
    biased: biased.values,
    biases: new Float64Array(biases.flatMap((list) => list.map(({ bias }) => bias))),
    forbiddenStarts: forbidden.starts,
    forbidden: forbidden.values,
    masks: masks.words,
    stride: MAX_LOGPROBS,
  };
}

function countsOf({ parameters, counts }: SampleRow): SampleRow['counts'] {
  if (!needsCounts(parameters)) return undefined;
  if (counts === undefined) throw new Error('sampling: penalties need the counts of tokens seen');
  return counts;
}

function realsOf({ parameters, position, choice }: SampleRow): readonly number[] {
  return [
    parameters.temperature,
    Math.max(parameters.topP, LEAST_SHARE),
    parameters.minP,
    parameters.typicalP,
    parameters.repetitionPenalty,
    parameters.presencePenalty,
    parameters.frequencyPenalty,
    uniformAt(parameters.seed, position, choice),
  ];
}

interface Joined {
  readonly values: Int32Array;
  /** List i is `values[starts[i] … starts[i + 1] - 1]`. */
  readonly starts: Int32Array;
}

function joined(lists: readonly (readonly number[])[]): Joined {
  const starts = new Int32Array(lists.length + 1);
  for (const [index, list] of lists.entries()) starts[index + 1] = (starts[index] as number) + list.length;
  const values = new Int32Array(starts[lists.length] as number);
  for (const [index, list] of lists.entries()) values.set(list, starts[index]);
  return { values, starts };
}

/** Rows that share a mask share its words. */
function packMasks(rows: readonly SampleRow[]): { words: Uint32Array; starts: readonly number[] } {
  const masks = [...new Set(rows.flatMap(({ mask }) => (mask === undefined ? [] : [mask])))];
  const places = new Map<Uint32Array, number>();
  let length = 0;
  for (const mask of masks) {
    places.set(mask, length);
    length += mask.length;
  }
  const words = new Uint32Array(length);
  for (const [mask, place] of places) words.set(mask, place);
  return { words, starts: rows.map(({ mask }) => (mask && places.get(mask)) ?? -1) };
}

function readResult({ parameters, given }: SampleRow, output: SampleOutput, index: number): SampleResult {
  const token = output.tokens[index] as number;
  if (token < 0) return { ok: false, error: token === -1 ? 'numeric-error' : 'no-candidate' };
  if (parameters.logprobs === undefined) return { ok: true, token };
  const first = index * MAX_LOGPROBS;
  const top = Array.from({ length: output.topCounts[index] as number }, (_, place) => ({
    token: output.topTokens[first + place] as number,
    logprob: output.topLogprobs[first + place] as number,
  }));
  const rank = given === undefined ? {} : { rank: output.ranks[index] as number };
  return { ok: true, token, logprobs: { logprob: output.logprobs[index] as number, top, ...rank } };
}
