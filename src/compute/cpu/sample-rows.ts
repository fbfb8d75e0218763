// Samples in native code: packs rows into flat arrays and unpacks results. Random numbers are made here, so there is one
// generator.

import { plainRow } from '../../sampling/chain.ts';
import { uniformAt } from '../../sampling/random.ts';
import type { SampleResult, SampleRow, SampleRows } from '../../sampling/sample-row.ts';
import { isGreedy, withChains } from '../../sampling/sampler.ts';
import { needsCounts } from '../../sampling/token-counts.ts';
import type { Addon, ModelHandle, SampleJob, SampleOutput } from './binding.ts';

const NONE = new Int32Array(0);
/** Columns of a job's `reals` and `integers`. */
const REALS = 8;
const INTEGERS = 4;
const LOGPROBS_COLUMN = 1;
const MASK_COLUMN = 2;
/** Native code needs a mass above 0. Weights sum to less than 2^64, so that this share still selects one token. */
const LEAST_SHARE = 2 ** -64;

/** `threads`: a model's, or a number of its own; results do not depend on it. */
export function createNativeSampler(addon: Addon, threads: ModelHandle | number): SampleRows {
  const sampler = addon.createSampler(threads);
  return withChains((logits, vocabSize, rows) => {
    const job = packRows(rows);
    const output = emptyOutput(rows.length, job.stride);
    addon.sampleRows(sampler, logits, vocabSize, job, output);
    return rows.map((row, index) => readResult(row, output, index, job.stride));
  });
}

function emptyOutput(rows: number, stride: number): SampleOutput {
  return {
    tokens: new Int32Array(rows),
    logprobs: new Float32Array(rows),
    ranks: new Int32Array(rows),
    topCounts: new Int32Array(rows),
    topTokens: new Int32Array(rows * stride),
    topLogprobs: new Float32Array(rows * stride),
  };
}

/** Tokens are wanted of these rows, and how likely each was; none needs a chain of samplers. */
export function packDraftRows(rows: readonly SampleRow[]): SampleJob {
  const job = packRows(rows.map(plainRow));
  for (let index = 0; index < rows.length; index++) job.integers[index * INTEGERS + LOGPROBS_COLUMN] = 0;
  return { ...job, stride: 0 };
}

function packRows(rows: readonly SampleRow[]): SampleJob {
  const reals = new Float64Array(rows.length * REALS);
  const integers = new Int32Array(rows.length * INTEGERS);
  const penalized: Int32Array[] = [];
  const generated: Int32Array[] = [];
  let stride = 0;
  for (let index = 0; index < rows.length; index++) {
    const row = rows[index] as SampleRow;
    const counts = countsOf(row);
    penalized.push(counts?.ids ?? NONE);
    generated.push(counts?.generated ?? NONE);
    writeReals(reals, index * REALS, row);
    writeIntegers(integers, index * INTEGERS, row);
    stride = Math.max(stride, row.parameters.logprobs ?? 0);
  }
  return {
    reals,
    integers,
    penalized,
    generated,
    ...packBiases(rows),
    ...packForbidden(rows),
    masks: packMasks(rows, integers),
    stride,
  };
}

function countsOf({ parameters, counts }: SampleRow): SampleRow['counts'] {
  if (!needsCounts(parameters)) return undefined;
  if (counts === undefined) throw new Error('sampling: penalties need the counts of tokens seen');
  return counts;
}

function writeReals(reals: Float64Array, at: number, { parameters, position, choice }: SampleRow): void {
  reals[at] = parameters.temperature;
  reals[at + 1] = Math.max(parameters.topP, LEAST_SHARE);
  reals[at + 2] = parameters.minP;
  reals[at + 3] = parameters.typicalP;
  reals[at + 4] = parameters.repetitionPenalty;
  reals[at + 5] = parameters.presencePenalty;
  reals[at + 6] = parameters.frequencyPenalty;
  reals[at + 7] = isGreedy(parameters) ? 0 : uniformAt(parameters.seed, position, choice);
}

function writeIntegers(integers: Int32Array, at: number, { parameters, given }: SampleRow): void {
  integers[at] = parameters.topK;
  integers[at + LOGPROBS_COLUMN] = parameters.logprobs ?? -1;
  integers[at + MASK_COLUMN] = -1;
  integers[at + 3] = given ?? -1;
}

/** The biases of row i are those from `biasStarts[i]` to before `biasStarts[i + 1]`. */
function packBiases(rows: readonly SampleRow[]): Pick<SampleJob, 'biasStarts' | 'biased' | 'biases'> {
  const biasStarts = startsOf(rows, ({ parameters }) => parameters.logitBias);
  const biased = new Int32Array(biasStarts[rows.length] as number);
  const biases = new Float64Array(biased.length);
  let at = 0;
  for (const { parameters } of rows) {
    for (const { token, bias } of parameters.logitBias) {
      biased[at] = token;
      biases[at++] = bias;
    }
  }
  return { biasStarts, biased, biases };
}

function packForbidden(rows: readonly SampleRow[]): Pick<SampleJob, 'forbiddenStarts' | 'forbidden'> {
  const forbiddenStarts = startsOf(rows, ({ forbidden }) => forbidden);
  const forbidden = new Int32Array(forbiddenStarts[rows.length] as number);
  let at = 0;
  for (const row of rows) for (const token of row.forbidden) forbidden[at++] = token;
  return { forbiddenStarts, forbidden };
}

function startsOf(rows: readonly SampleRow[], list: (row: SampleRow) => readonly unknown[]): Int32Array {
  const starts = new Int32Array(rows.length + 1);
  for (let index = 0; index < rows.length; index++) {
    starts[index + 1] = (starts[index] as number) + list(rows[index] as SampleRow).length;
  }
  return starts;
}

/** Rows that share a mask share its words. Writes where each row's begin. */
function packMasks(rows: readonly SampleRow[], integers: Int32Array): Uint32Array {
  const places = new Map<Uint32Array, number>();
  let length = 0;
  for (let index = 0; index < rows.length; index++) {
    const { mask } = rows[index] as SampleRow;
    if (mask === undefined) continue;
    let place = places.get(mask);
    if (place === undefined) {
      place = length;
      places.set(mask, place);
      length += mask.length;
    }
    integers[index * INTEGERS + MASK_COLUMN] = place;
  }
  const words = new Uint32Array(length);
  for (const [mask, place] of places) words.set(mask, place);
  return words;
}

function readResult(
  { parameters, given }: SampleRow,
  output: SampleOutput,
  index: number,
  stride: number,
): SampleResult {
  const token = output.tokens[index] as number;
  if (token < 0) return { ok: false, error: token === -1 ? 'numeric-error' : 'no-candidate' };
  if (parameters.logprobs === undefined) return { ok: true, token };
  const first = index * stride;
  const top = Array.from({ length: output.topCounts[index] as number }, (_, place) => ({
    token: output.topTokens[first + place] as number,
    logprob: output.topLogprobs[first + place] as number,
  }));
  const rank = given === undefined ? {} : { rank: output.ranks[index] as number };
  return { ok: true, token, logprobs: { logprob: output.logprobs[index] as number, top, ...rank } };
}
