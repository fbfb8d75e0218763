import { describe, expect, it } from 'vitest';
import { inSlowTurns } from './slow-turns.ts';

/** Looks once a turn, as Dawn does, until so much time has gone by; gives how often. */
function lookFor(ms: number): Promise<number> {
  const until = performance.now() + ms;
  return new Promise((resolve) => {
    let looks = 0;
    const look = () => {
      looks++;
      if (performance.now() >= until) resolve(looks);
      else setImmediate(look);
    };
    setImmediate(look);
  });
}

describe('waiting in slow turns', () => {
  it('has the event loop turn no more than twenty times a millisecond', async () => {
    const began = performance.now();
    const looks = await inSlowTurns(lookFor(20));
    expect(looks).toBeLessThan(2 + 20 * (performance.now() - began));
  });

  it('gives what was promised, or its failure', async () => {
    expect(await inSlowTurns(Promise.resolve(7))).toBe(7);
    await expect(inSlowTurns(Promise.reject(new Error('lost')))).rejects.toThrow('lost');
  });

  it('lets timers in', async () => {
    const order: string[] = [];
    setTimeout(() => order.push('timer'), 1);
    await inSlowTurns(lookFor(20).then(() => order.push('looked')));
    expect(order).toEqual(['timer', 'looked']);
  });
});
