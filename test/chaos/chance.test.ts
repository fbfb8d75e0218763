import { describe, expect, it } from 'vitest';
import { Chance } from './chance.ts';

const numbers = (chance: Chance) => Array.from({ length: 50 }, () => chance.below(1000));

describe('seeded decisions', () => {
  it('are the same for the same seed and differ for another', () => {
    expect(numbers(new Chance(7))).toEqual(numbers(new Chance(7)));
    expect(numbers(new Chance(7))).not.toEqual(numbers(new Chance(8)));
  });

  it('of a branch depend on its name alone, not on what the trunk has decided', () => {
    const used = new Chance(7);
    numbers(used);
    expect(numbers(used.branch('client 1'))).toEqual(numbers(new Chance(7).branch('client 1')));
    expect(numbers(used.branch('client 1'))).not.toEqual(numbers(used.branch('client 2')));
  });

  it('follow weights, and never take what has none', () => {
    const chance = new Chance(1);
    const taken = Array.from({ length: 1000 }, () =>
      chance.weighted([
        [3, 'often'],
        [1, 'seldom'],
        [0, 'never'],
      ]),
    );
    const often = taken.filter((item) => item === 'often').length;
    expect(often).toBeGreaterThan(650);
    expect(often).toBeLessThan(850);
    expect(taken).not.toContain('never');
  });

  it('stay within their bounds and reach both ends', () => {
    const chance = new Chance(3);
    const numbers = new Set(Array.from({ length: 200 }, () => chance.between(2, 4)));
    expect([...numbers].sort()).toEqual([2, 3, 4]);
    expect(chance.happens(0)).toBe(false);
    expect(chance.happens(1)).toBe(true);
  });

  it('shuffle without loss', () => {
    const items = [1, 2, 3, 4, 5, 6, 7, 8];
    const order = new Chance(5).shuffled(items);
    expect(order).not.toEqual(items);
    expect(order.toSorted()).toEqual(items);
  });
});
