import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Watchdog } from './watchdog.ts';

const LIMIT_MS = 16_000;

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function watch(answer: (watchdog: Watchdog) => void = () => {}, limitMs = LIMIT_MS) {
  const state = { busy: true, asked: 0, hung: [] as string[] };
  const watchdog: Watchdog = new Watchdog(limitMs, {
    busy: () => state.busy,
    ask: () => {
      state.asked++;
      answer(watchdog);
    },
    hung: (cause) => state.hung.push(cause),
  });
  return { state, watchdog };
}

describe('the watchdog', () => {
  it('reports an engine that says nothing, once, after it was asked', () => {
    const { state } = watch();
    vi.advanceTimersByTime(LIMIT_MS);
    expect(state.hung).toEqual([]);
    expect(state.asked).toBeGreaterThan(0);
    vi.advanceTimersByTime(10 * LIMIT_MS);
    expect(state.hung).toEqual(['said nothing for 16 s']);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('reports an engine that answers but ends no step', () => {
    const { state } = watch((watchdog) => watchdog.heard());
    vi.advanceTimersByTime(2 * LIMIT_MS);
    expect(state.hung).toEqual(['ended no step for 16 s']);
  });

  it('is content while steps end, or the engine says that there are none to end', () => {
    const { state } = watch((watchdog) => watchdog.advanced());
    vi.advanceTimersByTime(100 * LIMIT_MS);
    expect(state.hung).toEqual([]);
  });

  it('counts from when something is owed', () => {
    const { state } = watch();
    state.busy = false;
    vi.advanceTimersByTime(100 * LIMIT_MS);
    state.busy = true;
    vi.advanceTimersByTime(LIMIT_MS);
    expect(state.hung).toEqual([]);
    vi.advanceTimersByTime(LIMIT_MS);
    expect(state.hung.length).toBe(1);
  });

  it('does not blame an engine for time in which the server itself was held up', () => {
    const { state, watchdog } = watch();
    vi.advanceTimersByTime(LIMIT_MS / 2);
    // The clock jumps; timers are late, as after a suspension.
    vi.setSystemTime(Date.now() + 1000 * LIMIT_MS);
    vi.advanceTimersByTime(LIMIT_MS / 8);
    expect(state.hung).toEqual([]);
    watchdog.stop();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('waits long where it is told to wait for years', () => {
    const { state } = watch(undefined, 50 * 365 * 86_400_000);
    vi.advanceTimersByTime(300 * 86_400_000);
    expect(state.hung).toEqual([]);
  });
});
