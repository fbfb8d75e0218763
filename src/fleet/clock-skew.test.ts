import { expect, it } from 'vitest';
import { ClockSkews } from './clock-skew.ts';

it('a clock that is ahead is warned of once, and again after it was right', () => {
  const skews = new ClockSkews();
  const send = (aheadMs: number, times: number) =>
    Array.from({ length: times }, (_, i) => skews.handle('w', 1000 * i + aheadMs, 1000 * i)).filter(
      (warning) => warning !== undefined,
    );
  expect(send(300_000, 20)).toEqual(['the clock of w is 300 s ahead of this node’s: one of them is wrong']);
  expect(skews.largestMs).toBe(300_000);
  expect(send(10, 20)).toEqual([]);
  expect(send(-300_000, 20)).toEqual(['the clock of w is 300 s behind this node’s: one of them is wrong']);
  skews.left('w');
  expect(skews.largestMs).toBe(0);
});

it('messages that were held up are no skew', () => {
  const skews = new ClockSkews();
  for (let i = 0; i < 50; i++)
    expect(skews.handle('w', 1000 * i, 1000 * i + (i % 4 === 0 ? 5 : 20_000))).toBe(undefined);
  expect(skews.largestMs).toBe(5);
});
