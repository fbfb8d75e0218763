import { describe, expect, it } from 'vitest';
import { noKey } from './key-share.ts';
import { type LoadShape, planLoad } from './load-plan.ts';
import { randomLoad } from './random-load.ts';

const shape: LoadShape = {
  requests: 400,
  warmup: 0,
  keys: [noKey],
  promptTokens: { kind: 'uniform', from: 10, to: 90 },
  outputTokens: { kind: 'uniform', from: 10, to: 90 },
  prefixes: 3,
  prefixTokens: 64,
  requestsPerSecond: 20,
};

describe('a planned load', () => {
  it('is the same for the same seed, and another for another', () => {
    expect(planLoad(shape, randomLoad(5))).toEqual(planLoad(shape, randomLoad(5)));
    expect(planLoad(shape, randomLoad(5))).not.toEqual(planLoad(shape, randomLoad(6)));
  });

  it('does not change with the warm-up, whose requests are others', () => {
    const { warmup, requests } = planLoad({ ...shape, warmup: 10 }, randomLoad(5));
    expect(requests).toEqual(planLoad(shape, randomLoad(5)).requests);
    expect(warmup).toHaveLength(10);
    const indexes = new Set(requests.map(({ index }) => index));
    expect(warmup.filter(({ index }) => indexes.has(index))).toEqual([]);
    expect(new Set(warmup.map(({ arrivalMs }) => arrivalMs))).toEqual(new Set([0]));
  });

  it('starts at once and arrives at the asked rate, at exponential distances', () => {
    const { requests } = planLoad(shape, randomLoad(5));
    const gaps = requests.slice(1).map(({ arrivalMs }, n) => arrivalMs - (requests[n]?.arrivalMs ?? 0));
    expect(requests[0]?.arrivalMs).toBe(0);
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(0);
    const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
    expect(mean).toBeGreaterThan(42);
    expect(mean).toBeLessThan(58);
    // Of exponential distances 63 % lie below the mean.
    const below = gaps.filter((gap) => gap < mean).length / gaps.length;
    expect(below).toBeGreaterThan(0.57);
    expect(below).toBeLessThan(0.69);
  });

  it('sends everything at once where no rate is asked', () => {
    const { requests } = planLoad({ ...shape, requestsPerSecond: undefined }, randomLoad(5));
    expect(requests.every(({ arrivalMs }) => arrivalMs === 0)).toBe(true);
  });

  it('uses every shared beginning, and none where there is none', () => {
    const prefixes = (of: LoadShape) =>
      new Set(planLoad(of, randomLoad(1)).requests.map(({ prefix }) => prefix));
    expect(prefixes(shape)).toEqual(new Set([0, 1, 2]));
    expect(prefixes({ ...shape, prefixTokens: 0 })).toEqual(new Set([undefined]));
  });

  it('draws prompt and output lengths apart from each other', () => {
    const { requests } = planLoad(shape, randomLoad(5));
    expect(requests.filter((one) => one.promptTokens === one.outputTokens).length).toBeLessThan(40);
  });
});
