// The load as data: who sends how much and when. Made before anything is sent.

import { dealKeys, type KeyShare } from './key-share.ts';
import { drawLength, type LengthDistribution } from './length-distribution.ts';
import { exponentialFrom, type RandomLoad } from './random-load.ts';

export interface LoadShape {
  readonly requests: number;
  /** Sent before the others and not counted. */
  readonly warmup: number;
  readonly keys: readonly KeyShare[];
  readonly promptTokens: LengthDistribution;
  readonly outputTokens: LengthDistribution;
  /** Different beginnings of `prefixTokens` each, in front of the prompt's own tokens. */
  readonly prefixes: number;
  readonly prefixTokens: number;
  /** Poisson arrivals; where undefined, a request is sent as soon as there is a place for it. */
  readonly requestsPerSecond: number | undefined;
}

export interface PlannedRequest {
  /** Its own words follow from this number. */
  readonly index: number;
  readonly key: KeyShare;
  /** Of its own, without the prefix. */
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** Which shared beginning; undefined for none. */
  readonly prefix: number | undefined;
  /** From the start of the run. */
  readonly arrivalMs: number;
}

interface LoadPlan {
  readonly warmup: readonly PlannedRequest[];
  readonly requests: readonly PlannedRequest[];
}

/** Warm-up requests are numbered behind the others, so that their number changes nothing about those. */
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
        promptTokens: drawLength(shape.promptTokens, random.of('promptTokens', index)),
        outputTokens: drawLength(shape.outputTokens, random.of('outputTokens', index)),
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
