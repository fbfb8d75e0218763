import { describe, expect, it } from 'vitest';
import { shortened } from './format.ts';

describe('a text that is too long', () => {
  it('is cut between characters, never within a pair', () => {
    expect(shortened('abcdef', 4)).toBe('abc…');
    expect(shortened('ab👍cd', 4)).toBe('ab…');
    expect(shortened('abc', 3)).toBe('abc');
  });
});
