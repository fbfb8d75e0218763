import { describe, expect, it } from 'vitest';
import { closeInOrder } from './close-steps.ts';

describe('closing', () => {
  it('goes on with every other part though one throws, one fails and one never ends, and logs those three', async () => {
    const closed: string[] = [];
    const logged: string[] = [];
    const part = (what: string, close: () => unknown = () => {}) => ({
      what,
      limitMs: 20,
      close: () => {
        closed.push(what);
        return close();
      },
    });
    await closeInOrder(
      [
        part('the door', () => {
          throw new Error('it is stuck');
        }),
        part('the pool', () => Promise.reject(new Error('it is gone'))),
        part('the fleet', () => new Promise(() => {})),
        part('the store'),
      ],
      { error: (_: unknown, message?: string) => void logged.push(message ?? '') },
    );
    expect(closed).toEqual(['the door', 'the pool', 'the fleet', 'the store']);
    expect(logged).toEqual([
      'the door could not be closed: it is stuck',
      'the pool could not be closed: it is gone',
      'the fleet could not be closed: it took longer than 20 ms',
    ]);
  });
});
