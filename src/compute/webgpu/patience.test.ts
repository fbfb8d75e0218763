import { describe, expect, it } from 'vitest';
import { Patience } from './patience.ts';

function taught(...times: readonly number[]): Patience {
  const patience = new Patience();
  for (const ms of times) patience.learn('a', ms, false);
  return patience;
}

describe('waiting for a GPU', () => {
  it('is slept through for most of the time that the same work took before', () => {
    const patience = taught(300, 100, 100);
    expect(patience.restMs('a', 0)).toBe(85);
    expect(patience.restMs('a', 30)).toBe(55);
    expect(patience.restMs('a', 99)).toBe(0);
    expect(patience.restMs('b', 0)).toBe(0);
    expect(taught(3, 3, 3).restMs('a', 0)).toBe(0);
  });

  it('believes no step alone, nor much of one that was held up', () => {
    expect(taught(300, 300).restMs('a', 0)).toBe(0);
    for (const times of [
      [500, 20, 20],
      [20, 500, 20],
      [20, 20, 500],
    ]) {
      expect(taught(...times).restMs('a', 0)).toBeLessThanOrEqual(18);
    }
  });

  it('follows work that becomes slower, and soon that which becomes faster', () => {
    expect(taught(20, 20, 20, ...Array(60).fill(100)).restMs('a', 0)).toBe(85);
    const patience = taught(100, 100, 100);
    let lost = 0;
    for (let step = 0; step < 20; step++) {
      const slept = patience.restMs('a', 0);
      // Takes 10 now.
      patience.learn('a', Math.max(10, slept), slept > 10);
      lost += Math.max(0, slept - 10);
    }
    expect(patience.restMs('a', 0)).toBeLessThan(10);
    expect(lost).toBeLessThan(150);
  });
});
