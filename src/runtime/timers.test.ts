import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { orAbort, runAfter } from './timers.ts';

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

describe('a wait that an abort may end', () => {
  it('gives what its promise gives, or fails as it fails', async () => {
    const { signal } = new AbortController();
    expect(await orAbort(Promise.resolve(5), signal)).toBe(5);
    await expect(orAbort(Promise.reject(new Error('no')), signal)).rejects.toThrow('no');
  });

  it('ends at once with the reason, and hands on what comes late', async () => {
    const controller = new AbortController();
    let give: (value: string) => void = () => {};
    const promise = new Promise<string>((resolve) => {
      give = resolve;
    });
    const late: string[] = [];
    const waiting = orAbort(promise, controller.signal, (value) => late.push(value));
    controller.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    give('a lease');
    await promise;
    expect(late).toEqual(['a lease']);
  });

  it('hands on what comes though the abort was there first', async () => {
    const controller = new AbortController();
    controller.abort(new Error('gone'));
    const late: string[] = [];
    const promise = Promise.resolve('a lease');
    await expect(orAbort(promise, controller.signal, (value) => late.push(value))).rejects.toThrow('gone');
    expect(late).toEqual(['a lease']);
  });
});
