import { describe, expect, it } from 'vitest';
import { parseOptions } from './chaos-options.ts';

describe('the options of a run', () => {
  it('are a length, also in fractions of a minute, and a seed', () => {
    expect(parseOptions(['--minutes', '0.5', '--seed', '7'], 1)).toEqual({ minutes: 0.5, seed: 7 });
    expect(parseOptions([], 42)).toEqual({ minutes: 1, seed: 42 });
  });

  it('may be a few kinds of trouble alone', () => {
    const only = new Set(['twin', 'close the terminal']);
    expect(parseOptions(['--only', 'twin, close the terminal'], 1)).toEqual({ minutes: 1, seed: 1, only });
  });

  it.each([
    [['--minutes', '0']],
    [['--only', '?']],
    [['--minutes', 'two']],
    [['--minutes']],
    [['--seed', '1.5']],
    [['--seed', '-1']],
    [['--hours', '1']],
  ])('are refused with the usage where they make no sense: %j', (words) => {
    expect(parseOptions(words, 1)).toContain('usage');
  });
});
