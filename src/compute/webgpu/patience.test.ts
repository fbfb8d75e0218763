import { describe, expect, it } from 'vitest';
import { Patience } from './patience.ts';

function taught(...times: readonly number[]): Patience {
  const patience = new Patience();
  for (const ms of times) patience.learn('a', ms);
  return patience;
}

describe('waiting for a GPU', () => {
  it('is slept through for most of the time that the same work took before', () => {
    const patience = taught(300, 100);
    expect(patience.restMs('a', 0)).toBe(85);
    expect(patience.restMs('a', 30)).toBe(55);
    expect(patience.restMs('a', 99)).toBe(0);
    expect(patience.restMs('b', 0)).toBe(0);
    expect(taught(3, 3).restMs('a', 0)).toBe(0);
  });

  it('takes no time from a first step, nor much from one that was held up', () => {
    expect(taught(300).restMs('a', 0)).toBe(0);
    expect(taught(20, 20, 300).restMs('a', 0)).toBeLessThanOrEqual(18);
  });

  it('follows work that becomes slower or faster', () => {
    expect(taught(20, 20, ...Array(60).fill(100)).restMs('a', 0)).toBe(85);
    const patience = taught(100, 100);
    // Done after 10, noticed after the sleep.
    for (let step = 0; step < 20; step++) patience.learn('a', Math.max(10, patience.restMs('a', 0)));
    expect(patience.restMs('a', 0)).toBeLessThan(10);
  });
});
