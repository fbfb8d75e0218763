import { describe, expect, it } from 'vitest';
import { Turns } from './turns.ts';

const never = new AbortController().signal;

describe('turns at an upstream', () => {
  it('go to higher tiers first, then by arrival, and never to more at once than allowed', async () => {
    const turns = new Turns(2);
    const order: string[] = [];
    let running = 0;
    let most = 0;
    const run = async (name: string, priority: number) => {
      const end = await turns.take(priority, never);
      most = Math.max(most, ++running);
      order.push(name);
      await new Promise((resolve) => setTimeout(resolve, 1));
      running--;
      end();
      end();
    };
    await Promise.all([
      run('a', 2),
      run('b', 2),
      run('low', 2),
      run('normal', 1),
      run('high', 0),
      run('later', 1),
    ]);
    expect(order).toEqual(['a', 'b', 'high', 'normal', 'later', 'low']);
    expect(most).toBe(2);
  });

  it('pass over who has left', async () => {
    const turns = new Turns(1);
    const end = await turns.take(1, never);
    const leaving = new AbortController();
    const left = turns.take(0, leaving.signal);
    const next = turns.take(1, never);
    leaving.abort(new Error('gone'));
    await expect(left).rejects.toThrow('gone');
    end();
    (await next)();
    (await turns.take(1, never))();
  });
});
