import { describe, expect, it } from 'vitest';
import { parseOptions } from './chaos-options.ts';

describe('the options of a run', () => {
  it('are a length, also in fractions of a minute, and a seed', () => {
    expect(parseOptions(['--minutes', '0.5', '--seed', '7'], 1)).toEqual({ minutes: 0.5, seed: 7 });
    expect(parseOptions([], 42)).toEqual({ minutes: 1, seed: 42 });
  });

  it.each([
    [['--minutes', '0']],
    [['--minutes', 'two']],
    [['--minutes']],
    [['--seed', '1.5']],
    [['--seed', '-1']],
    [['--hours', '1']],
  ])('are refused with the usage where they make no sense: %j', (words) => {
    expect(parseOptions(words, 1)).toContain('usage');
  });
});
