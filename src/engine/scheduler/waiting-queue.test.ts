import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compareKeys, type Priority, Sequence } from '../sequence.ts';
import { WaitingQueue } from './waiting-queue.ts';

function sequence(arrival: number, priority: Priority, enqueuedMs: number, account = ''): Sequence {
  const tokens = Int32Array.of(1);
  const each = new Sequence({ id: `s${arrival}`, tokens, maxTokens: 9, priority, enqueuedMs, account });
  each.arrival = arrival;
  return each;
}

describe('WaitingQueue', () => {
  it('gives the most urgent first, whatever was pushed and removed before', () => {
    const entry = fc.record({
      priority: fc.constantFrom<Priority>(0, 1, 2),
      enqueuedMs: fc.integer({ min: 0, max: 60 }).map((seconds) => seconds * 1000),
      removed: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(entry, { size: 'max', maxLength: 60 }), (entries) => {
        const queue = new WaitingQueue();
        const all = entries.map(({ priority, enqueuedMs }, i) => sequence(i, priority, enqueuedMs));
        for (const each of all) queue.push(each);
        const kept = all.filter((each, i) => {
          if (entries[i]?.removed) queue.remove(each);
          return !entries[i]?.removed;
        });
        expect(queue.size).toBe(kept.length);
        expect(new Set(queue)).toEqual(new Set(kept));
        for (const expected of kept.sort(compareKeys)) {
          expect(queue.peek()).toBe(expected);
          queue.remove(expected);
        }
        expect(queue.peek()).toBeUndefined();
      }),
      { numRuns: 500 },
    );
  });

  it('knows who is in it', () => {
    const queue = new WaitingQueue();
    const [a, b] = [sequence(0, 1, 0), sequence(1, 1, 0)];
    queue.push(a);
    expect([queue.has(a), queue.has(b)]).toEqual([true, false]);
    expect(() => queue.remove(b)).toThrow('not in the queue');
    queue.remove(a);
    expect(queue.has(a)).toBe(false);
  });

  it('serves the accounts of a tier in turn: a flood never shuts another account out', () => {
    const queue = new WaitingQueue();
    const flood = Array.from({ length: 50 }, (_, i) => sequence(i, 1, 0, 'flood'));
    for (const each of flood) queue.push(each);
    const start = (each: Sequence) => {
      queue.remove(each);
      queue.started(each);
    };
    for (let running = 0; running < 4; running++) start(queue.peek() as Sequence);
    const other = Array.from({ length: 3 }, (_, i) => sequence(100 + i, 1, 5000, 'other'));
    for (const each of other) queue.push(each);
    const order: string[] = [];
    // One of the flood ends, one waiting starts, again and again.
    for (const ended of flood.slice(0, 6)) {
      queue.stopped(ended);
      const next = queue.peek() as Sequence;
      order.push(next.account);
      start(next);
    }
    // Two each: from then on whoever has fewer.
    expect(order).toEqual(['other', 'other', 'flood', 'flood', 'flood', 'flood']);
  });

  it('keeps the order between tiers, whatever the accounts run', () => {
    const queue = new WaitingQueue();
    const busy = sequence(0, 0, 0, 'busy');
    queue.push(busy);
    queue.started(sequence(1, 0, 0, 'busy'));
    queue.push(sequence(2, 1, 0, 'idle'));
    expect(queue.peek()).toBe(busy);
  });

  it('lets nobody be overtaken by one more than 20 s younger', () => {
    const queue = new WaitingQueue();
    const old = sequence(0, 1, 0, 'busy');
    queue.push(old);
    queue.started(sequence(1, 1, 0, 'busy'));
    const young = sequence(2, 1, 19_000, 'idle');
    queue.push(young);
    expect(queue.peek()).toBe(young);
    queue.remove(young);
    queue.push(sequence(3, 1, 21_000, 'idle'));
    expect(queue.peek()).toBe(old);
  });
});
