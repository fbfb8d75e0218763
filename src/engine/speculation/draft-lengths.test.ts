import { describe, expect, it } from 'vitest';
import { draftLengths } from './draft-lengths.ts';

const chain = (probability: number, length: number) =>
  Array.from({ length }, (_, i) => probability ** (i + 1));

describe('how draft tokens are shared out', () => {
  it('none where a row costs as much as a step', () => {
    expect(draftLengths([chain(0.9, 8)], 1, (draftTokens) => 1 + draftTokens)).toEqual([0]);
  });

  it('all where they cost nothing', () => {
    expect(draftLengths([chain(0.5, 6), chain(0.1, 3)], 2, () => 1)).toEqual([6, 3]);
  });

  it('as many as make most tokens a millisecond, over steps in the cost', () => {
    // Four rows cost hardly more than one, five much more.
    const costs = [1, 1.6, 1.7, 1.2, 2.5, 2.6];
    const stepMs = (draftTokens: number) => costs[draftTokens] ?? 9;
    expect(draftLengths([chain(0.6, 5)], 1, stepMs)).toEqual([3]);
  });

  it('to those first whose draft tokens are likelier', () => {
    const stepMs = (draftTokens: number) => (draftTokens <= 3 ? 1 : 9);
    expect(draftLengths([chain(0.9, 5), chain(0.3, 5)], 2, stepMs)).toEqual([3, 0]);
    expect(draftLengths([chain(0.9, 5), chain(0.85, 5)], 2, stepMs)).toEqual([2, 1]);
  });
});
