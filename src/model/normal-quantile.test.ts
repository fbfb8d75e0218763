import { expect, it } from 'vitest';
import { normalQuantile } from './normal-quantile.ts';

it('knows the shares that tables give', () => {
  expect(normalQuantile(0.5)).toBeCloseTo(0, 12);
  expect(normalQuantile(0.95)).toBeCloseTo(1.6448536269514722, 12);
  expect(normalQuantile(0.975)).toBeCloseTo(1.959963984540054, 12);
  expect(normalQuantile(0.1)).toBeCloseTo(-1.2815515655446004, 12);
  expect(normalQuantile(0)).toBe(Number.NEGATIVE_INFINITY);
});
