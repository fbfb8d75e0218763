// The load as data, made before anything is sent: keys, lengths and arrivals. Everything random depends on the seed and the
// request alone, so the same seed gives the same load, however the server behaves.

import { seedFrom, uniformAt } from '../../sampling/random.ts';

export interface LoadShape {
  readonly requests: number;
  readonly warmup: number;
  readonly keys: readonly KeyShare[];
  readonly promptTokens: LengthDistribution;
  readonly outputTokens: LengthDistribution;
  /** Shared prefixes of `prefixTokens` each, before the prompt's own tokens. */
  readonly prefixes: number;
  readonly prefixTokens: number;
  /** Poisson arrivals; where undefined, the next request is sent as soon as the concurrency allows. */
  readonly requestsPerSecond: number | undefined;
}

export interface PlannedRequest {
  readonly index: number;
  readonly key: KeyShare;
  readonly promptTokens: number;
  readonly outputTokens: number;
  readonly prefix: number | undefined;
  readonly arrivalMs: number;
}

interface LoadPlan {
  readonly warmup: readonly PlannedRequest[];
  readonly requests: readonly PlannedRequest[];
}

/** Numbered after the others, so that their count changes nothing about those. */
export function planLoad(shape: LoadShape, random: RandomLoad): LoadPlan {
  const { requests, warmup, keys, requestsPerSecond } = shape;
  const plan = (count: number, first: number, perSecond: number | undefined): PlannedRequest[] => {
    let arrivalMs = 0;
    return dealKeys(keys, count).map((key, n) => {
      const index = first + n;
      if (n > 0 && perSecond !== undefined) {
        arrivalMs += exponentialFrom(random.of('arrival', index), perSecond);
      }
      return {
        index,
        key,
        promptTokens: sampleLength(shape.promptTokens, random.of('promptTokens', index)),
        outputTokens: sampleLength(shape.outputTokens, random.of('outputTokens', index)),
        prefix: prefixOf(shape, random, index),
        arrivalMs,
      };
    });
  };
  return { warmup: plan(warmup, requests, undefined), requests: plan(requests, 0, requestsPerSecond) };
}

function prefixOf(
  { prefixes, prefixTokens }: LoadShape,
  random: RandomLoad,
  index: number,
): number | undefined {
  if (prefixes === 0 || prefixTokens === 0) return undefined;
  return Math.floor(random.of('prefix', index)(0) * prefixes);
}

export interface KeyShare {
  readonly name: string;
  readonly secret: string | undefined;
  readonly weight: number;
}

export const KEY_FORMS = 'KEY, name=KEY or name:weight=KEY';

/** Where no key is given. */
export const noKey: KeyShare = { name: 'anonymous', secret: undefined, weight: 1 };

/** A key may itself end in `=`, as base64 does. */
export function parseKey(text: string, number: number): KeyShare | undefined {
  if (text.trim() === '') return undefined;
  const [, name, weight, secret] = /^([\w.-]+)(?::(\d+(?:\.\d+)?))?=(.*[^=].*)$/.exec(text) ?? [];
  if (name === undefined || secret === undefined) return { name: `key-${number}`, secret: text, weight: 1 };
  if (weight !== undefined && Number(weight) <= 0) return undefined;
  return { name, secret, weight: Number(weight ?? 1) };
}

/** By weight, as evenly as possible: every key stays within one request of its share. */
export function dealKeys(keys: readonly KeyShare[], count: number): KeyShare[] {
  const total = keys.reduce((sum, { weight }) => sum + weight, 0);
  const credit = keys.map(() => 0);
  return Array.from({ length: count }, () => {
    let best = 0;
    keys.forEach(({ weight }, n) => {
      credit[n] = (credit[n] ?? 0) + weight / total;
      if ((credit[n] ?? 0) > (credit[best] ?? 0) + 1e-9) best = n;
    });
    credit[best] = (credit[best] ?? 0) - 1;
    return keys[best] as KeyShare;
  });
}

export type LengthDistribution =
  | { readonly kind: 'fixed'; readonly tokens: number }
  | { readonly kind: 'uniform'; readonly from: number; readonly to: number }
  | { readonly kind: 'normal'; readonly mean: number; readonly deviation: number }
  /** `sigma` is the deviation of the logarithm. */
  | { readonly kind: 'lognormal'; readonly median: number; readonly sigma: number };

export const LENGTH_FORMS = '256, 128-512, normal:256,64 or lognormal:256,0.5';

export function parseLengths(text: string): LengthDistribution | undefined {
  const [, fixed] = /^(\d+)$/.exec(text) ?? [];
  if (fixed !== undefined) return Number(fixed) >= 1 ? { kind: 'fixed', tokens: Number(fixed) } : undefined;
  const [, from, to] = /^(\d+)-(\d+)$/.exec(text) ?? [];
  if (from !== undefined) {
    const ends = { from: Number(from), to: Number(to) };
    return ends.from >= 1 && ends.to >= ends.from ? { kind: 'uniform', ...ends } : undefined;
  }
  const [, name, centre, spread] = /^(normal|lognormal):(\d+(?:\.\d+)?),(\d+(?:\.\d+)?)$/.exec(text) ?? [];
  if (name === undefined || Number(centre) < 1) return undefined;
  return name === 'normal'
    ? { kind: 'normal', mean: Number(centre), deviation: Number(spread) }
    : { kind: 'lognormal', median: Number(centre), sigma: Number(spread) };
}

export function sampleLength(lengths: LengthDistribution, uniform: Uniforms): number {
  return Math.max(1, Math.round(sampleValue(lengths, uniform)));
}

function sampleValue(lengths: LengthDistribution, uniform: Uniforms): number {
  switch (lengths.kind) {
    case 'fixed':
      return lengths.tokens;
    case 'uniform':
      return lengths.from + Math.floor(uniform(0) * (lengths.to - lengths.from + 1));
    case 'normal':
      return lengths.mean + lengths.deviation * normalFrom(uniform);
    case 'lognormal':
      return lengths.median * Math.exp(lengths.sigma * normalFrom(uniform));
  }
}

export function formatLengths(lengths: LengthDistribution): string {
  switch (lengths.kind) {
    case 'fixed':
      return `${lengths.tokens}`;
    case 'uniform':
      return `${lengths.from}-${lengths.to}`;
    case 'normal':
      return `normal:${lengths.mean},${lengths.deviation}`;
    case 'lognormal':
      return `lognormal:${lengths.median},${lengths.sigma}`;
  }
}

/** The n-th uniform number in [0, 1) of one purpose. */
export type Uniforms = (n: number) => number;

/** Each purpose has its own row of numbers. */
const purposes = { promptTokens: 0, outputTokens: 1, arrival: 2, prefix: 3 } as const;
const OWN_TEXT = 1_000;
const PREFIX_TEXT = 2 ** 31;

type Purpose = keyof typeof purposes;

export interface RandomLoad {
  of(purpose: Purpose, request: number): Uniforms;
  ownText(request: number): Uniforms;
  prefixText(prefix: number): Uniforms;
}

const UNIFORMS_A_REQUEST = 2;

export function randomLoad(seedNumber: number): RandomLoad {
  const seed = seedFrom(BigInt(seedNumber));
  const textAt = (row: number): Uniforms => {
    return (n) => uniformAt(seed, n, row);
  };
  return {
    of: (purpose, request) => (n) => uniformAt(seed, request * UNIFORMS_A_REQUEST + n, purposes[purpose]),
    ownText: (request) => textAt(OWN_TEXT + request),
    prefixText: (prefix) => textAt(PREFIX_TEXT + prefix),
  };
}

/** Box-Muller, from two uniform numbers. */
function normalFrom(uniform: Uniforms): number {
  return Math.sqrt(-2 * Math.log(1 - uniform(0))) * Math.cos(2 * Math.PI * uniform(1));
}

export function exponentialFrom(uniform: Uniforms, perSecond: number): number {
  return (-Math.log(1 - uniform(0)) / perSecond) * 1000;
}
