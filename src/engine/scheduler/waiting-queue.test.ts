import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compareKeys, type Priority, Sequence } from './sequence.ts';
import { WaitingQueue } from './waiting-queue.ts';

function sequence(arrival: number, priority: Priority, enqueuedMs: number, account = ''): Sequence {
  const tokens = Int32Array.of(1);
  const each = new Sequence({ id: `s${arrival}`, tokens, maxTokens: 9, priority, enqueuedMs, account });
  each.arrival = arrival;
  return each;
}

describe('WaitingQueue', () => {
  it('lets an account put its own in order, a step for a second, and never before others', () => {
    const tokens = Int32Array.of(1);
    const asked = (id: string, account: string, enqueuedMs: number, order = 0) =>
      new Sequence({ id, tokens, maxTokens: 9, priority: 1, enqueuedMs, account, order });
    const queue = new WaitingQueue();
    const own = [asked('late', 'a', 5000, 0), asked('urgent', 'a', 8000, -10), asked('old', 'a', 0, 3)];
    for (const each of own) queue.push(each);
    const taken: string[] = [];
    for (let next = queue.peek(); next !== undefined; next = queue.peek()) {
      taken.push(next.id);
      queue.remove(next);
    }
    expect(taken).toEqual(['urgent', 'old', 'late']);
    queue.push(asked('mine', 'a', 2000, -1000));
    queue.push(asked('theirs', 'b', 1000));
    expect(queue.peek()?.id).toBe('theirs');
  });

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

  it('gives one that was preempted its old place before younger ones of a higher tier', () => {
    const queue = new WaitingQueue();
    const low = sequence(0, 2, 0);
    queue.push(low);
    queue.advance(60_000);
    queue.remove(low);
    queue.started(low, 1);
    queue.stopped(low);
    low.state = 'preempted';
    queue.push(low);
    queue.push(sequence(1, 0, 30_000));
    expect(queue.peek()).toBe(low);
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

  /** Admits the next, with so much work ahead of it. */
  function admit(queue: WaitingQueue, work = 0): Sequence {
    const next = queue.peek() as Sequence;
    queue.remove(next);
    queue.started(next, work);
    return next;
  }

  function compute(queue: WaitingQueue, each: Sequence, work: number): void {
    queue.computed(each, work);
    queue.settle();
  }

  function pushed(queue: WaitingQueue, count: number, account: string, enqueuedMs = 0): Sequence[] {
    const all = Array.from({ length: count }, (_, i) =>
      sequence(1000 * enqueuedMs + i, 1, enqueuedMs, account),
    );
    for (const each of all) queue.push(each);
    return all;
  }

  it('admits the account of a tier that has had least work, however many it runs', () => {
    const queue = new WaitingQueue();
    pushed(queue, 50, 'long prompts');
    pushed(queue, 50, 'short prompts', 1);
    const work = { 'long prompts': 0, 'short prompts': 0 };
    for (let i = 0; i < 40; i++) {
      const { account } = admit(queue, queue.peek()?.account === 'long prompts' ? 900 : 100);
      work[account as keyof typeof work] += account === 'long prompts' ? 900 : 100;
    }
    expect(Math.abs(work['long prompts'] - work['short prompts'])).toBeLessThanOrEqual(900);
  });

  it('counts what was promised once it is computed, and nothing of what never is', () => {
    const queue = new WaitingQueue();
    pushed(queue, 3, 'a');
    pushed(queue, 3, 'b', 1);
    const first = admit(queue, 100);
    const second = admit(queue, 100);
    expect([first.account, second.account]).toEqual(['a', 'b']);
    compute(queue, first, 60);
    compute(queue, second, 100);
    // Both stand at 100, until a is cancelled with 40 of its work undone.
    queue.stopped(first);
    expect(queue.peek()?.account).toBe('a');
    compute(queue, second, 1);
    expect(queue.peek()?.account).toBe('a');
  });

  it('forgets work over a minute', () => {
    const queue = new WaitingQueue();
    queue.advance(0);
    pushed(queue, 2, 'once');
    pushed(queue, 2, 'now', 1);
    const [once, now] = [admit(queue), admit(queue)];
    compute(queue, once, 1000);
    compute(queue, now, 500);
    expect(queue.peek()?.account).toBe('now');
    queue.advance(60_000);
    // 1000 are 368 now, 500 are 184.
    compute(queue, now, 150);
    expect(queue.peek()?.account).toBe('now');
    compute(queue, now, 50);
    expect(queue.peek()?.account).toBe('once');
  });

  it('gives no credit for a pause: who comes back has had what the least served has had', () => {
    const queue = new WaitingQueue();
    pushed(queue, 50, 'busy');
    const running = admit(queue);
    compute(queue, running, 10_000);
    pushed(queue, 50, 'new', 1);
    const order = Array.from({ length: 6 }, () => admit(queue, 100).account);
    expect(order).toEqual(['new', 'busy', 'new', 'busy', 'new', 'busy']);
  });

  it('keeps its order though the numbers of an hour are scaled down', () => {
    const queue = new WaitingQueue();
    queue.advance(0);
    pushed(queue, 9, 'more');
    pushed(queue, 9, 'less', 1);
    const [more, less] = [admit(queue, 50), admit(queue, 50)];
    for (let minute = 0; minute <= 300; minute++) {
      queue.advance(60_000 * minute);
      compute(queue, more, 20);
      compute(queue, less, 19);
    }
    expect(queue.peek()?.account).toBe('less');
  });

  it('keeps the order between tiers, whatever the accounts had', () => {
    const queue = new WaitingQueue();
    const busy = sequence(0, 0, 0, 'busy');
    queue.push(busy);
    queue.started(sequence(1, 0, 0, 'busy'), 1000);
    queue.push(sequence(2, 1, 0, 'idle'));
    expect(queue.peek()).toBe(busy);
  });

  it('lets no account be overtaken by one that came more than a minute after its last turn', () => {
    const queue = new WaitingQueue();
    queue.advance(0);
    const old = sequence(0, 1, 0, 'busy');
    queue.push(old);
    queue.started(sequence(1, 1, 0, 'busy'), 1000);
    const young = sequence(2, 1, 59_000, 'idle');
    queue.push(young);
    expect(queue.peek()).toBe(young);
    queue.remove(young);
    queue.push(sequence(3, 1, 61_000, 'idle'));
    expect(queue.peek()).toBe(old);
    // It has a turn, and waits anew.
    queue.advance(61_000);
    queue.remove(old);
    queue.started(old, 1000);
    queue.push(sequence(4, 1, 0, 'busy'));
    expect(queue.peek()?.account).toBe('idle');
  });

  it('tells the order in which it would admit, and stays as it is', () => {
    const queue = new WaitingQueue();
    const all = Array.from({ length: 30 }, (_, i) =>
      sequence(i, (i % 3) as Priority, 1000 * i, `account ${(i * i) % 5}`),
    );
    for (const each of all) queue.push(each);
    const workOf = ({ arrival }: Sequence) => 1 + (arrival % 7);
    const order = queue.order(100, workOf);
    expect(queue.order(7, workOf)).toEqual(order.slice(0, 7));
    const admitted = all.map(() => {
      const next = queue.peek() as Sequence;
      queue.remove(next);
      queue.started(next, workOf(next));
      return next;
    });
    expect(order).toEqual(admitted);
  });
});
