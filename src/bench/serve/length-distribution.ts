// How many tokens a request has: a fixed number, or drawn from a distribution.

import { type Draw, normalFrom } from './random-load.ts';

export type LengthDistribution =
  | { readonly kind: 'fixed'; readonly tokens: number }
  /** Both ends included. */
  | { readonly kind: 'uniform'; readonly from: number; readonly to: number }
  | { readonly kind: 'normal'; readonly mean: number; readonly deviation: number }
  /** Half of the lengths lie below the median; `sigma` is the deviation of their logarithm. */
  | { readonly kind: 'lognormal'; readonly median: number; readonly sigma: number };

export const LENGTH_FORMS = '256, 128-512, normal:256,64 or lognormal:256,0.5';

/** Undefined where the text is none of the forms. */
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

/** At least one token. */
export function drawLength(lengths: LengthDistribution, draw: Draw): number {
  return Math.max(1, Math.round(drawValue(lengths, draw)));
}

function drawValue(lengths: LengthDistribution, draw: Draw): number {
  switch (lengths.kind) {
    case 'fixed':
      return lengths.tokens;
    case 'uniform':
      return lengths.from + Math.floor(draw(0) * (lengths.to - lengths.from + 1));
    case 'normal':
      return lengths.mean + lengths.deviation * normalFrom(draw);
    case 'lognormal':
      return lengths.median * Math.exp(lengths.sigma * normalFrom(draw));
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
