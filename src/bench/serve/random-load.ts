// Everything random about a load comes from its seed and from what is drawn, never from when it is drawn: the same
// seed gives the same load, however the server behaves.

import { seedFrom, uniformAt } from '../../sampling/random.ts';

/** The n-th draw in [0, 1) of one purpose. */
export type Draw = (n: number) => number;

/** What is drawn for a request, and the words of texts; each has its own row of numbers. */
const purposes = { promptTokens: 0, outputTokens: 1, arrival: 2, prefix: 3 } as const;
const OWN_TEXT = 1_000;
const PREFIX_TEXT = 2 ** 31;

type Purpose = keyof typeof purposes;

export interface RandomLoad {
  /** Draws for one request. */
  of(purpose: Purpose, request: number): Draw;
  ownText(request: number): Draw;
  prefixText(prefix: number): Draw;
}

const DRAWS_A_REQUEST = 2;

export function randomLoad(seedNumber: number): RandomLoad {
  const seed = seedFrom(BigInt(seedNumber));
  const textAt = (row: number): Draw => {
    return (n) => uniformAt(seed, n, row);
  };
  return {
    of: (purpose, request) => (n) => uniformAt(seed, request * DRAWS_A_REQUEST + n, purposes[purpose]),
    ownText: (request) => textAt(OWN_TEXT + request),
    prefixText: (prefix) => textAt(PREFIX_TEXT + prefix),
  };
}

/** By Box and Muller, from two draws. */
export function normalFrom(draw: Draw): number {
  return Math.sqrt(-2 * Math.log(1 - draw(0))) * Math.cos(2 * Math.PI * draw(1));
}

/** A gap between Poisson arrivals. */
export function exponentialFrom(draw: Draw, perSecond: number): number {
  return (-Math.log(1 - draw(0)) / perSecond) * 1000;
}
