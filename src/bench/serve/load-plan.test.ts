import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  dealKeys,
  formatLengths,
  type LoadShape,
  noKey,
  parseKey,
  parseLengths,
  planLoad,
  randomLoad,
  sampleLength,
} from './load-plan.ts';

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

  it('samples prompt and output lengths apart from each other', () => {
    const { requests } = planLoad(shape, randomLoad(5));
    expect(requests.filter((one) => one.promptTokens === one.outputTokens).length).toBeLessThan(40);
  });
});

describe('a key on the command line', () => {
  it.each([
    ['sk-abc', { name: 'key-3', secret: 'sk-abc', weight: 1 }],
    ['vip=sk-abc', { name: 'vip', secret: 'sk-abc', weight: 1 }],
    ['bulk:2.5=sk-a=b=', { name: 'bulk', secret: 'sk-a=b=', weight: 2.5 }],
    ['c2VjcmV0==', { name: 'key-3', secret: 'c2VjcmV0==', weight: 1 }],
  ])('%s has its name, secret and weight', (text, key) => {
    expect(parseKey(text, 3)).toEqual(key);
  });

  it.each(['', '  ', 'a:0=b'])('%j is none', (text) => {
    expect(parseKey(text, 1)).toBeUndefined();
  });
});

describe('dealing requests to keys', () => {
  it('keeps every key within one request of its share at any time', () => {
    const weights = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(weights, (all) => {
        const keys = all.map((weight, n) => ({ name: `${n}`, secret: undefined, weight }));
        const total = all.reduce((sum, weight) => sum + weight, 0);
        const counts = all.map(() => 0);
        dealKeys(keys, 60).forEach(({ name }, n) => {
          counts[Number(name)] = (counts[Number(name)] as number) + 1;
          all.forEach((weight, key) => {
            expect(Math.abs((counts[key] as number) - ((n + 1) * weight) / total)).toBeLessThanOrEqual(
              1 + 1e-6,
            );
          });
        });
      }),
      { numRuns: 50 },
    );
  });
});

const random = randomLoad(7);
const sampled = (text: string, count = 4000) => {
  const lengths = parseLengths(text);
  if (lengths === undefined) throw new Error(`${text} is no distribution`);
  return Array.from({ length: count }, (_, n) => sampleLength(lengths, random.of('promptTokens', n)));
};
const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

describe('a distribution of lengths', () => {
  it.each(['256', '128-512', '5-5', 'normal:256,64', 'lognormal:256,0.5'])(
    '%s is read and written',
    (text) => {
      expect(formatLengths(parseLengths(text) as NonNullable<ReturnType<typeof parseLengths>>)).toBe(text);
    },
  );

  it.each(['', '0', '-3', '5-2', '0-4', 'normal:256', 'normal:0,4', 'gamma:1,2', '1.5', '12 '])(
    '%j is none',
    (text) => {
      expect(parseLengths(text)).toBeUndefined();
    },
  );

  it('samples whole numbers as its form says', () => {
    expect(new Set(sampled('17', 50))).toEqual(new Set([17]));
    const uniform = sampled('3-7');
    expect([...new Set(uniform)].sort()).toEqual([3, 4, 5, 6, 7]);
    expect(mean(uniform)).toBeCloseTo(5, 0);
    const normal = sampled('normal:256,64');
    expect(mean(normal)).toBeGreaterThan(252);
    expect(mean(normal)).toBeLessThan(260);
    const deviation = Math.sqrt(mean(normal.map((value) => (value - mean(normal)) ** 2)));
    expect(deviation).toBeGreaterThan(60);
    expect(deviation).toBeLessThan(68);
    const lognormal = sampled('lognormal:256,0.5').sort((left, right) => left - right);
    expect(lognormal[2000]).toBeGreaterThan(245);
    expect(lognormal[2000]).toBeLessThan(267);
    // exp(0.5² / 2) times the median.
    expect(mean(lognormal) / 256).toBeCloseTo(1.13, 1);
  });

  it('never samples less than one token', () => {
    expect(Math.min(...sampled('normal:2,50'))).toBe(1);
  });
});
