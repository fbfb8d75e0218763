// A row's samplers as a chain of stages, for rows that use more than temperature, top-k, typical-p, top-p and min-p in their
// usual order. It is the only implementation: every backend gives it the whole row of logits, and so they all agree.

import {
  byLogit,
  type Candidate,
  type Candidates,
  keepMinP,
  keepTopK,
  keepTopP,
  keepTypical,
  momentOf,
  sampleCandidate,
  sumOf,
  type TokenLogit,
  withTotal,
} from './candidates.ts';
import { dynamicTemperature, standardDeviation } from './chain-measures.ts';
import { scaleLogit, sumWeights, unitBitsFor, weightOf } from './exponential.ts';
import { dryEdit, type LogitEdit, penaltyEdit, takeDry, tokenPenalties } from './logit-edits.ts';
import { firstMu, keepUnsurprising, nextMu } from './mirostat.ts';
import { GREEDY_BELOW, type SamplingParameters } from './parameters.ts';
import { streams, uniformAt } from './random.ts';
import type { SampleRow } from './sample-row.ts';
import { type SamplerName, temperatureFirst, temperatureLast } from './sampler-names.ts';
import { needsCounts } from './token-counts.ts';

/** Candidates are gathered this far below the highest first, in powers of two; then farther, then all. */
const DEPTHS = [12, 30, Infinity];

interface Survivors extends Candidates {
  /** No filter has removed anything. */
  readonly untouched: boolean;
  readonly temperature: number;
}

/** Undefined where the known candidates cannot decide. */
type Stage = (survivors: Survivors) => Survivors | undefined;

export interface ChainSample {
  readonly token: number;
  readonly mu?: number;
}

/** Whether the row needs more than the usual stages, which all backends know. */
export function needsChain({ parameters, dry, given }: SampleRow): boolean {
  if (given !== undefined) return false;
  if (parameters.samplers !== undefined) return true;
  if (dry !== undefined && dry.tokens.length > 0 && !isPlainDry(parameters, dry.tokens)) return true;
  const { temperature, dynatempRange, topNSigma, xtcProbability, minKeep, mirostat } = parameters;
  if (dynatempRange > 0) return true;
  if (temperature < GREEDY_BELOW) return false;
  return topNSigma > 0 || xtcProbability > 0 || minKeep > 1 || mirostat !== 0;
}

/** Whether what DRY takes may be added like a bias, which comes before other penalties. */
function isPlainDry(parameters: SamplingParameters, tokens: readonly number[]): boolean {
  if (needsCounts(parameters)) return false;
  const penalized = new Set(tokens);
  return parameters.logitBias.every(({ token }) => !penalized.has(token));
}

/** The row with what DRY takes off as a part of its bias: for rows that need no chain. */
export function plainRow(row: SampleRow): SampleRow {
  const { dry, parameters } = row;
  if (dry === undefined || dry.tokens.length === 0) return row;
  const taken = dry.tokens.map((token, i) => ({ token, bias: -(dry.penalties[i] as number) }));
  const logitBias = [...parameters.logitBias, ...taken];
  return { ...row, dry: undefined, parameters: { ...parameters, logitBias } };
}

/** Samples from logits that have their bias and exclusions, some of them above -Infinity; changes them. */
export function sampleChain(logits: Float32Array, row: SampleRow): ChainSample {
  const survivorsAt = chainOf(logits, row);
  for (const depth of DEPTHS) {
    const last = survivorsAt(depth);
    const sampled = last && sampleLast(last, row, logits.length);
    if (sampled !== undefined) return sampled;
  }
  throw new Error('sampling: all candidates are known and do not decide');
}

/** What the stages leave of the candidates down to a depth; undefined where those do not decide it. */
export function chainOf(logits: Float32Array, row: SampleRow): (depth: number) => Candidates | undefined {
  const names = orderOf(row.parameters).filter((name) => isActive(name, row.parameters));
  // Before all filters, penalties are those of the whole row.
  while (names[0] === 'penalties' || names[0] === 'dry') {
    if (names.shift() === 'penalties') tokenPenalties(logits, row);
    else takeDry(logits, row.dry);
  }
  const stages = stagesOf(names, logits, row);
  // A temperature that comes before all filters is that of the row.
  const temperature = names[0] === 'temperature' ? rowTemperature(logits, row.parameters) : 1;
  return (depth) =>
    stages.reduce<Survivors | undefined>(
      (left, stage) => left && stage(left),
      gather(logits, temperature, depth),
    );
}

function orderOf({ samplers, dynatempRange, mirostat }: SamplingParameters): readonly SamplerName[] {
  if (mirostat !== 0) return ['penalties', 'dry', 'temperature'];
  return samplers ?? (dynatempRange > 0 ? temperatureLast : temperatureFirst);
}

/** Whether a sampler does anything. */
function isActive(name: SamplerName, parameters: SamplingParameters): boolean {
  switch (name) {
    case 'top_n_sigma':
      return parameters.topNSigma > 0;
    case 'top_k':
      return parameters.topK > 0;
    case 'typ_p':
      return parameters.typicalP < 1;
    case 'top_p':
      return parameters.topP < 1;
    case 'min_p':
      return parameters.minP > 0;
    case 'xtc':
      return parameters.xtcProbability > 0;
    default:
      return true;
  }
}

function stagesOf(names: readonly SamplerName[], logits: Float32Array, row: SampleRow): Stage[] {
  const { parameters } = row;
  const { topK, typicalP, topP, minP, minKeep, topNSigma } = parameters;
  const filter = (keep: (candidates: Candidates) => Candidates | undefined): Stage => {
    return (survivors) => {
      const kept = keep(survivors);
      return kept && (kept === survivors ? survivors : { ...survivors, ...kept, untouched: false });
    };
  };
  const stages: Record<SamplerName, Stage> = {
    penalties: (survivors) => edit(survivors, () => penaltyEdit(row), logits.length),
    dry: (survivors) => edit(survivors, () => dryEdit(row), logits.length),
    temperature: (survivors) => warm(survivors, parameters, logits),
    top_n_sigma: (survivors) => keepWithin(survivors, topNSigma, logits),
    top_k: filter((candidates) => keepTopK(candidates, topK)),
    typ_p: filter((candidates) => keepTypical(candidates, typicalP, minKeep)),
    top_p: filter((candidates) => keepTopP(candidates, topP, minKeep)),
    min_p: filter((candidates) => keepMinP(candidates, minP, minKeep)),
    xtc: filter((candidates) => excludeTop(candidates, row)),
  };
  return names.map((name) => stages[name]);
}

function sampleLast(survivors: Candidates, row: SampleRow, vocabSize: number): ChainSample | undefined {
  const { parameters, position, choice } = row;
  const { mirostat, seed } = parameters;
  const mu = row.mu ?? firstMu(parameters);
  const kept = mirostat === 0 ? survivors : keepUnsurprising(survivors, parameters, mu, vocabSize);
  const sampled = kept && sampleCandidate(kept, uniformAt(seed, position, choice));
  if (sampled === undefined) return undefined;
  const { token } = sampled;
  return mirostat === 0 ? { token } : { token, mu: nextMu(parameters, mu, kept as Candidates, sampled) };
}

function highestOf(logits: Float32Array): number {
  let highest = -Infinity;
  for (let token = 0; token < logits.length; token++) highest = Math.max(highest, logits[token] as number);
  return highest;
}

/** The likeliest candidates, in order. */
function gather(logits: Float32Array, temperature: number, depth: number): Survivors {
  const tokens: TokenLogit[] = [];
  const highest = highestOf(logits);
  const least = Math.fround(highest - depth * Math.LN2 * temperature);
  for (let token = 0; token < logits.length; token++) {
    const logit = logits[token] as number;
    if (logit >= least && logit !== -Infinity) tokens.push({ token, logit });
  }
  const list = weighAll(tokens, temperature, logits.length);
  const whole = depth === Infinity;
  const { total } = whole ? withTotal(list) : sumWeights(logits, highest, temperature);
  return { list, total, whole, untouched: true, temperature };
}

/** Weighs tokens and puts them in order. Those of no weight stay: a higher temperature may give them one. */
function weighAll(tokens: readonly TokenLogit[], temperature: number, vocabSize: number): Candidate[] {
  const unitBits = unitBitsFor(vocabSize);
  const highest = tokens.reduce((most, { logit }) => Math.max(most, logit), -Infinity);
  const list = tokens.map(({ token, logit }) => {
    const scaled = scaleLogit(logit, highest, temperature);
    return { token, logit, scaled, weight: weightOf(scaled, unitBits) };
  });
  return list.sort(byLogit);
}

/** 1 where it leaves the likeliest token alone, which is no matter of weights. */
function rowTemperature(logits: Float32Array, parameters: SamplingParameters): number {
  const { dynatempRange } = parameters;
  const temperature =
    dynatempRange > 0
      ? dynamicTemperature(sumWeights(logits, highestOf(logits), 1), parameters, logits.length)
      : parameters.temperature;
  return temperature < GREEDY_BELOW ? 1 : temperature;
}

function warm(
  survivors: Survivors,
  parameters: SamplingParameters,
  logits: Float32Array,
): Survivors | undefined {
  const { list, total, whole, untouched } = survivors;
  const { dynatempRange } = parameters;
  // The weight of unknown candidates is that of the row, unless a filter has removed some of them.
  if (!whole && !untouched && (dynatempRange > 0 || parameters.temperature >= GREEDY_BELOW)) return undefined;
  const sums = () =>
    untouched
      ? sumWeights(logits, (list[0] as Candidate).logit, 1)
      : { total, moment: momentOf(list), count: list.length };
  const temperature =
    dynatempRange > 0 ? dynamicTemperature(sums(), parameters, logits.length) : parameters.temperature;
  if (temperature < GREEDY_BELOW) return { ...survivors, ...withTotal(list.slice(0, 1)), untouched: false };
  if (temperature === survivors.temperature) return survivors;
  const warmed = weighAll(list, temperature, logits.length);
  const highest = (warmed[0] as Candidate).logit;
  const all = whole ? withTotal(warmed) : sumWeights(logits, highest, temperature);
  return { ...survivors, list: warmed, total: all.total, temperature };
}

/** Top-n-sigma (Tang et al., 2024), before or after temperature: it divides both sides. */
function keepWithin(survivors: Survivors, sigmas: number, logits: Float32Array): Survivors | undefined {
  const { list, whole, untouched } = survivors;
  if (!untouched && !whole) return undefined;
  const deviation = standardDeviation(untouched ? logits : list.map(({ logit }) => logit));
  const least = (list[0] as Candidate).logit - sigmas * deviation;
  const kept = list.filter(({ logit }) => logit >= least);
  if (kept.length === list.length && !whole) return undefined;
  return { ...survivors, ...withTotal(kept), untouched: false };
}

/** XTC ("exclude top choices"): now and then only the least likely of the probable tokens stays of them. */
function excludeTop(
  candidates: Candidates,
  { parameters, position, choice }: SampleRow,
): Candidates | undefined {
  const { xtcProbability, xtcThreshold, minKeep, seed } = parameters;
  if (xtcThreshold > 0.5 || uniformAt(seed, position, choice, streams.xtc) >= xtcProbability)
    return candidates;
  const { list, total, whole } = candidates;
  const end = list.findIndex(({ weight }) => weight < xtcThreshold * total);
  if (end === -1 && !whole) return undefined;
  const excluded = Math.max(0, (end === -1 ? list.length : end) - 1);
  if (excluded === 0) return candidates;
  const left = list.slice(excluded);
  if (left.length < minKeep) return whole ? candidates : undefined;
  return { list: left, total: total - sumOf(list.slice(0, excluded)), whole };
}

/** Changes the logits of candidates, as divided by the temperature, and weighs them anew. */
function edit(survivors: Survivors, prepare: () => LogitEdit, vocabSize: number): Survivors | undefined {
  const { list, whole, temperature } = survivors;
  if (!whole) return undefined;
  const change = prepare();
  const edited = list.map(({ token, logit }) => ({
    token,
    logit: Math.fround(change(token, Math.fround(logit / temperature)) * temperature),
  }));
  return { ...survivors, ...withTotal(weighAll(edited, temperature, vocabSize)), untouched: false };
}
