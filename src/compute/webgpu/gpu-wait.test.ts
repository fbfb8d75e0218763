import { describe, expect, it } from 'vitest';
import { inSlowTurns, StepTimer } from './gpu-wait.ts';

function timerAfter(...times: readonly number[]): StepTimer {
  const timer = new StepTimer();
  for (const ms of times) timer.record('a', ms, false);
  return timer;
}

describe('waiting for a GPU', () => {
  it('is slept through for most of the time that the same work took before', () => {
    const timer = timerAfter(300, 100, 100);
    expect(timer.sleepMs('a', 0)).toBe(85);
    expect(timer.sleepMs('a', 30)).toBe(55);
    expect(timer.sleepMs('a', 99)).toBe(0);
    expect(timer.sleepMs('b', 0)).toBe(0);
    expect(timerAfter(3, 3, 3).sleepMs('a', 0)).toBe(0);
  });

  it('believes no step alone, nor much of one that was held up', () => {
    expect(timerAfter(300, 300).sleepMs('a', 0)).toBe(0);
    for (const times of [
      [500, 20, 20],
      [20, 500, 20],
      [20, 20, 500],
    ]) {
      expect(timerAfter(...times).sleepMs('a', 0)).toBeLessThanOrEqual(18);
    }
  });

  it('follows work that becomes slower, and soon that which becomes faster', () => {
    expect(timerAfter(20, 20, 20, ...Array(60).fill(100)).sleepMs('a', 0)).toBe(85);
    const timer = timerAfter(100, 100, 100);
    let lost = 0;
    for (let step = 0; step < 20; step++) {
      const slept = timer.sleepMs('a', 0);
      // Takes 10 now.
      timer.record('a', Math.max(10, slept), slept > 10);
      lost += Math.max(0, slept - 10);
    }
    expect(timer.sleepMs('a', 0)).toBeLessThan(10);
    expect(lost).toBeLessThan(150);
  });
});

/** Polls once a turn, as Dawn does, for a time; gives how often. */
function pollFor(ms: number): Promise<number> {
  const until = performance.now() + ms;
  return new Promise((resolve) => {
    let polls = 0;
    const poll = () => {
      polls++;
      if (performance.now() >= until) resolve(polls);
      else setImmediate(poll);
    };
    setImmediate(poll);
  });
}

describe('waiting in slow turns', () => {
  it('has the event loop turn no more than twenty times a millisecond', async () => {
    const began = performance.now();
    const polls = await inSlowTurns(pollFor(20));
    expect(polls).toBeLessThan(2 + 20 * (performance.now() - began));
  });

  it('gives what was promised, or its failure', async () => {
    expect(await inSlowTurns(Promise.resolve(7))).toBe(7);
    await expect(inSlowTurns(Promise.reject(new Error('lost')))).rejects.toThrow('lost');
  });

  it('lets timers in', async () => {
    const order: string[] = [];
    setTimeout(() => order.push('timer'), 1);
    await inSlowTurns(pollFor(20).then(() => order.push('polled')));
    expect(order).toEqual(['timer', 'polled']);
  });
});
