import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compareKeys, type Priority, Sequence } from '../sequence.ts';
import { WaitingQueue } from './waiting-queue.ts';

function sequence(arrival: number, priority: Priority, enqueuedMs: number): Sequence {
  const tokens = Int32Array.of(1);
  const each = new Sequence({ id: `s${arrival}`, tokens, maxTokens: 9, priority, enqueuedMs });
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
});
