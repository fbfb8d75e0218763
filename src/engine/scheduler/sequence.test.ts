import { describe, expect, it } from 'vitest';
import { compareKeys, type Priority, Sequence } from './sequence.ts';

function sequence(priority: Priority, enqueuedMs: number, options: { maxTokens?: number } = {}): Sequence {
  const tokens = Int32Array.of(5, 6, 7);
  return new Sequence({ id: 's', tokens, maxTokens: options.maxTokens ?? 100, priority, enqueuedMs });
}

describe('Sequence', () => {
  it('lets LOW pass a fresh HIGH after 20 s, and NORMAL after 10 s', () => {
    for (const [priority, seconds] of [
      [2, 20],
      [1, 10],
    ] as const) {
      const waiting = sequence(priority, 1_750_000_000_000);
      const before = sequence(0, 1_750_000_000_000 + seconds * 1000 - 1);
      const after = sequence(0, 1_750_000_000_000 + seconds * 1000 + 1);
      expect(compareKeys(before, waiting)).toBeLessThan(0);
      expect(compareKeys(waiting, after)).toBeLessThan(0);
    }
  });

  it('serves equal keys in the order of arrival', () => {
    const [first, second] = [sequence(1, 0), sequence(1, 0)];
    second.arrival = 1;
    expect(compareKeys(first, second)).toBeLessThan(0);
  });

  it('grows to its limit and not beyond', () => {
    const grown = sequence(1, 0, { maxTokens: 200 });
    for (let i = 3; i < 200; i++) grown.append(i);
    expect([...grown.tokens]).toEqual([5, 6, 7, ...Array.from({ length: 197 }, (_, i) => i + 3)]);
    expect(() => grown.append(0)).toThrow('should have finished at 200');
  });

  it('leaves the given tokens alone', () => {
    const tokens = Int32Array.of(1, 2);
    const grown = new Sequence({ id: 's', tokens, maxTokens: 9, priority: 1, enqueuedMs: 0 });
    grown.append(3);
    expect([...tokens]).toEqual([1, 2]);
  });

  it('refuses a time that cannot be ordered', () => {
    expect(() => sequence(1, Number.NaN)).toThrow('time NaN');
  });

  it('refuses an empty prompt and one that leaves no room', () => {
    const options = { id: 's', maxTokens: 3, priority: 1, enqueuedMs: 0 } as const;
    expect(() => new Sequence({ ...options, tokens: new Int32Array(0) })).toThrow('prompt of 0');
    expect(() => new Sequence({ ...options, tokens: new Int32Array(3) })).toThrow('no room');
    expect(() => new Sequence({ ...options, tokens: new Int32Array(2), promptLength: 3 })).toThrow(
      'prompt of 3',
    );
  });
});
