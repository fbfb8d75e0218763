import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type CacheBatch, CacheEvents } from './cache-events.ts';
import { ENTRY_BYTES, PrefixIndex } from './prefix-index.ts';

/** Keys that all fall into few buckets, so that chains of entries are met. */
const keyOf = (n: number): readonly [number, number] => [n % 3, n * 7];
const keysOf = (numbers: readonly number[]) => Int32Array.from(numbers.flatMap((n) => [...keyOf(n)]));

function partFor(index: PrefixIndex, worker: number): number {
  const part = index.openPart(worker);
  if (part === undefined) throw new Error('no room for another part');
  return part;
}

function found(index: PrefixIndex, numbers: readonly number[]): Record<number, number> {
  const { count, workers, blocks } = index.match(keysOf(numbers));
  return Object.fromEntries(Array.from({ length: count }, (_, i) => [workers[i], blocks[i]]));
}

/** Leading keys of the chain that each worker holds, where it holds any. */
function naiveMatch(held: ReadonlyMap<number, ReadonlySet<number>>, chain: readonly number[]) {
  const result: Record<number, number> = {};
  for (const [worker, keys] of held) {
    const missing = chain.findIndex((n) => !keys.has(n));
    const blocks = missing === -1 ? chain.length : missing;
    if (blocks > 0) result[worker] = blocks;
  }
  return result;
}

const WORKERS = 80;
const KEYS = 24;
const worker = fc.nat(WORKERS - 1);
const key = fc.nat(KEYS - 1);

describe('the prefix index', () => {
  it('finds what a plain map of sets would, whatever enters, leaves, is closed and opened again', () => {
    const event = fc.oneof(
      { weight: 8, arbitrary: fc.record({ kind: fc.constant('enter' as const), worker, key }) },
      { weight: 3, arbitrary: fc.record({ kind: fc.constant('leave' as const), worker, key }) },
      { weight: 1, arbitrary: fc.record({ kind: fc.constant('close' as const), worker, key }) },
      {
        weight: 2,
        arbitrary: fc.record({
          kind: fc.constant('ask' as const),
          chain: fc.uniqueArray(key, { maxLength: 6 }),
        }),
      },
    );
    fc.assert(
      fc.property(fc.array(event, { maxLength: 400 }), (events) => {
        const index = new PrefixIndex(10_000);
        const parts = new Map<number, number>();
        const held = new Map<number, Set<number>>();
        for (const one of events) {
          if (one.kind === 'ask') {
            expect(found(index, one.chain)).toEqual(naiveMatch(held, one.chain));
            continue;
          }
          const part = parts.get(one.worker) ?? partFor(index, one.worker);
          parts.set(one.worker, part);
          const keys = held.get(one.worker) ?? new Set();
          held.set(one.worker, keys);
          if (one.kind === 'close') {
            index.closePart(part);
            parts.delete(one.worker);
            held.delete(one.worker);
          } else if (one.kind === 'enter') {
            index.enter(part, ...keyOf(one.key));
            keys.add(one.key);
          } else {
            index.leave(part, ...keyOf(one.key));
            keys.delete(one.key);
          }
        }
        for (let n = 0; n < KEYS; n++) expect(found(index, [n])).toEqual(naiveMatch(held, [n]));
      }),
      { numRuns: 300 },
    );
  });

  it('says of each tier which blocks it holds up to the first that nobody has, and reports none as a worker', () => {
    const event = fc.record({
      kind: fc.constantFrom('enter', 'enter', 'enter', 'leave', 'close'),
      worker,
      key,
    });
    const chain = fc.uniqueArray(key, { minLength: 1, maxLength: 8 });
    fc.assert(
      fc.property(fc.array(event, { maxLength: 300 }), chain, (events, asked) => {
        const index = new PrefixIndex(10_000);
        const parts = new Map<number, number>();
        const held = new Map<number, Set<number>>();
        const isTier = (one: number) => one % 2 === 1;
        for (const { kind, worker: one, key: number } of events) {
          const part = parts.get(one) ?? (isTier(one) ? index.openPart() : index.openPart(one)) ?? 0;
          parts.set(one, part);
          const keys = held.get(one) ?? new Set();
          held.set(one, keys);
          if (kind === 'enter') {
            index.enter(part, ...keyOf(number));
            keys.add(number);
          } else if (kind === 'leave') {
            index.leave(part, ...keyOf(number));
            keys.delete(number);
          } else {
            index.closePart(part);
            parts.delete(one);
            held.delete(one);
          }
        }
        const workers = new Map([...held].filter(([one]) => !isTier(one)));
        const { count, workers: matched, blocks } = index.match(keysOf(asked), true);
        const reported = Array.from({ length: count }, (_, i) => [matched[i], blocks[i]]);
        expect(Object.fromEntries(reported)).toEqual(naiveMatch(workers, asked));
        for (const [one, part] of parts) {
          const holds = Array.from({ length: index.known }, (_, block) => index.holds(part, block));
          expect(holds).toEqual(
            asked.slice(0, index.known).map((number) => held.get(one)?.has(number) === true),
          );
        }
        const next = asked[index.known];
        if (next !== undefined) expect([...held.values()].some((keys) => keys.has(next))).toBe(false);
      }),
      { numRuns: 300 },
    );
  });

  it('stays within its memory, also where many workers hold the same keys, and counts what it forgets', () => {
    const index = new PrefixIndex(100);
    const parts = Array.from({ length: 200 }, (_, n) => partFor(index, n));
    for (let n = 0; n < 300; n++) {
      for (const part of n % 3 === 0 ? parts : parts.slice(0, 1)) {
        index.enter(part, ...keyOf(n));
        expect(index.bytes).toBeLessThanOrEqual(100 * ENTRY_BYTES);
      }
    }
    expect(index.forgotten).toBe(300 - index.size);
    expect(found(index, [299])).toEqual({ 0: 1 });
    expect(found(index, [0])).toEqual({});
  });

  it('finds all that entered and nothing that left, however far it has grown', () => {
    const index = new PrefixIndex(3001);
    const part = partFor(index, 1);
    for (let n = 0; n < 6000; n++) {
      index.enter(part, n, 7 * n);
      if (n % 2 === 1) index.leave(part, n, 7 * n);
    }
    for (let n = 0; n < 6000; n++) {
      expect(index.match(Int32Array.of(n, 7 * n)).count).toBe(n % 2 === 0 ? 1 : 0);
    }
    expect(index.forgotten).toBe(0);
    for (let n = 6001; n < 6023; n += 2) index.enter(part, n, 7 * n);
    expect([index.size, index.forgotten]).toEqual([3001, 10]);
  });

  it('forgets first what was longest neither entered nor asked for, and children before their parents', () => {
    const index = new PrefixIndex(4);
    const part = partFor(index, 5);
    for (const n of [1, 2, 3, 4]) index.enter(part, ...keyOf(n));
    expect(found(index, [1, 2])).toEqual({ 5: 2 });
    for (const n of [10, 11]) index.enter(part, ...keyOf(n));
    expect([3, 4].map((n) => found(index, [n]))).toEqual([{}, {}]);
    index.enter(part, ...keyOf(12));
    expect(found(index, [1])).toEqual({ 5: 1 });
    expect(found(index, [2])).toEqual({});
  });

  it('gives the numbers of closed parts out again once nothing is left of them', () => {
    const index = new PrefixIndex(1000);
    const numbers = new Set<number>();
    for (let life = 0; life < 500; life++) {
      const part = partFor(index, 7);
      numbers.add(part);
      for (let n = 0; n < 20; n++) index.enter(part, ...keyOf(n));
      expect(found(index, [0, 1])).toEqual({ 7: 2 });
      index.closePart(part);
      expect(found(index, [0, 1])).toEqual({});
    }
    expect(numbers.size).toBeLessThan(10);
    const last = partFor(index, 8);
    for (let n = 100; n < 120; n++) index.enter(last, ...keyOf(n));
    expect(index.size).toBe(20);
  });

  it('refuses a size that is none', () => {
    for (const size of [0, -1, 1.5, Number.NaN]) expect(() => new PrefixIndex(size)).toThrow('entries, not');
  });
});

describe('news of caches', () => {
  const batch = (number: number, entered: number[], left: number[] = [], epoch = 'a'): CacheBatch => ({
    epoch,
    number,
    entered: keysOf(entered),
    left: keysOf(left),
  });
  const snapshot = (number: number, keys: number[], epoch = 'a') => ({ epoch, number, keys: keysOf(keys) });

  it('are brought in one after the other; a repeated batch changes nothing', () => {
    const index = new PrefixIndex(100);
    const news = new CacheEvents(index);
    expect(news.apply(3, batch(1, [1, 2]))).toBe('applied');
    expect(news.apply(3, batch(2, [], [2]))).toBe('applied');
    expect(news.apply(3, batch(1, [1, 2]))).toBe('repeated');
    expect(found(index, [1, 2])).toEqual({ 3: 1 });
  });

  it('ask for a snapshot once where one is missing, and go on behind it with what came meanwhile', () => {
    const index = new PrefixIndex(100);
    const news = new CacheEvents(index);
    news.apply(3, batch(1, [1]));
    expect(news.apply(3, batch(3, [3], [1]))).toBe('missed');
    expect(news.apply(3, batch(4, [4]))).toBe('kept');
    expect(found(index, [1]), 'old knowledge stays').toEqual({ 3: 1 });
    expect(news.replace(3, snapshot(3, [2, 3]))).toBe('applied');
    expect([1, 2, 3, 4].map((n) => found(index, [n]))).toEqual([{}, { 3: 1 }, { 3: 1 }, { 3: 1 }]);
    expect(news.apply(3, batch(5, [], [2]))).toBe('applied');
    expect(news.lastNumber(3)).toBe(5);
  });

  it('ask again where a batch after the snapshot is missing too', () => {
    const news = new CacheEvents(new PrefixIndex(100));
    expect(news.apply(3, batch(5, [1]))).toBe('missed');
    news.apply(3, batch(8, [2]));
    expect(news.replace(3, snapshot(5, [1]))).toBe('missed');
    expect(news.replace(3, snapshot(4, [1])), 'one from before').toBe('repeated');
    expect(news.replace(3, snapshot(8, [1, 2]))).toBe('applied');
  });

  it('of another life replace all of the former', () => {
    const index = new PrefixIndex(100);
    const news = new CacheEvents(index);
    news.apply(3, batch(1, [1]));
    expect(news.apply(3, batch(1, [2], [], 'b'))).toBe('applied');
    expect([found(index, [1]), found(index, [2])]).toEqual([{}, { 3: 1 }]);
    expect(news.replace(3, snapshot(7, [5], 'c'))).toBe('applied');
    expect([found(index, [2]), found(index, [5])]).toEqual([{}, { 3: 1 }]);
    news.forget(3);
    expect([found(index, [5]), news.lastNumber(3)]).toEqual([{}, undefined]);
  });

  it('give the true contents of every cache once all gaps are filled, whatever was lost on the way', () => {
    const change = fc.record({
      worker: fc.nat(5),
      toggled: fc.uniqueArray(key, { minLength: 1, maxLength: 4 }),
      isLost: fc.boolean(),
      snapshotAfter: fc.nat(3),
    });
    fc.assert(
      fc.property(fc.array(change, { maxLength: 100 }), (changes) => {
        const index = new PrefixIndex(1000);
        const news = new CacheEvents(index);
        const held = new Map<number, Set<number>>();
        const numbers = new Map<number, number>();
        const owed = new Map<number, number>();
        const bringSnapshot = (one: number) => {
          const keys = [...(held.get(one) ?? [])];
          news.replace(one, snapshot(numbers.get(one) ?? 0, keys));
          owed.delete(one);
        };
        for (const { worker: one, toggled, isLost, snapshotAfter } of changes) {
          const keys = held.get(one) ?? new Set();
          held.set(one, keys);
          const entered = toggled.filter((n) => !keys.has(n));
          const left = toggled.filter((n) => keys.has(n));
          for (const n of entered) keys.add(n);
          for (const n of left) keys.delete(n);
          const number = (numbers.get(one) ?? 0) + 1;
          numbers.set(one, number);
          if (!isLost && news.apply(one, batch(number, entered, left)) === 'missed') {
            owed.set(one, snapshotAfter);
          }
          for (const [other, wait] of [...owed]) {
            if (wait === 0) bringSnapshot(other);
            else owed.set(other, wait - 1);
          }
        }
        // A last batch of each shows what is missing.
        for (const [one, number] of numbers) {
          numbers.set(one, number + 1);
          const outcome = news.apply(one, batch(number + 1, []));
          if (outcome !== 'applied') bringSnapshot(one);
        }
        for (let n = 0; n < KEYS; n++) expect(found(index, [n])).toEqual(naiveMatch(held, [n]));
      }),
    );
  });
});
