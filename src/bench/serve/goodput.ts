// Limits that a request should keep: goodput counts those that keep all of them.

import type { RequestMeasures } from './measure.ts';

const limitNames = ['ttft', 'tpot', 'e2el'] as const;
type LimitName = (typeof limitNames)[number];

/** In milliseconds, at most. */
export type GoodputLimits = Readonly<Partial<Record<LimitName, number>>>;

export const GOODPUT_FORM = 'ttft:500,tpot:50,e2el:5000, or some of them, in milliseconds';

/** Undefined where the text is not of the form. */
export function parseGoodput(text: string): GoodputLimits | undefined {
  const limits: Partial<Record<LimitName, number>> = {};
  for (const part of text.split(',')) {
    const [, name, ms] = /^\s*(\w+):(\d+(?:\.\d+)?)\s*$/.exec(part) ?? [];
    const limit = limitNames.find((one) => one === name);
    if (limit === undefined || limits[limit] !== undefined) return undefined;
    limits[limit] = Number(ms);
  }
  return limits;
}

/** An answer without output has no first token in time; one of a single token has no time per further token to miss. */
export function keepsLimits({ ttftMs, tpotMs, e2elMs }: RequestMeasures, limits: GoodputLimits): boolean {
  const { ttft, tpot, e2el } = limits;
  if (ttft !== undefined && (ttftMs === undefined || ttftMs > ttft)) return false;
  if (tpot !== undefined && tpotMs !== undefined && tpotMs > tpot) return false;
  return e2el === undefined || e2elMs <= e2el;
}
