import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { runAfter } from './timers.ts';

describe('runAfter', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it.each([1, 2 ** 31 - 1, 2 ** 31, 30 * 86_400_000, 400 * 86_400_000])(
    'waits %d ms, then runs once',
    (ms) => {
      const run = vi.fn();
      runAfter(ms, run);
      vi.advanceTimersByTime(ms - 1);
      expect(run).not.toHaveBeenCalled();
      vi.advanceTimersByTime(1);
      expect(run).toHaveBeenCalledTimes(1);
      vi.advanceTimersByTime(ms);
      expect(run).toHaveBeenCalledTimes(1);
    },
  );

  it('never runs where it is cancelled, or the time has no end', () => {
    const run = vi.fn();
    const timer = runAfter(30 * 86_400_000, run);
    runAfter(Number.POSITIVE_INFINITY, run);
    vi.advanceTimersByTime(29 * 86_400_000);
    timer.cancel();
    vi.advanceTimersByTime(4000 * 86_400_000);
    expect(run).not.toHaveBeenCalled();
    expect(vi.getTimerCount()).toBe(0);
  });
});
