import { describe, expect, it } from 'vitest';
import { MOST_KEYS_AT_ONCE, StoredKeyLog, type StoredKeys } from './stored-keys.ts';

const label = (number: number) => ({ high: number, low: -number });

/** High lanes of the keys that a listener holds for held after it was told this. */
function heldAfter(news: readonly StoredKeys[]): Set<number> {
  const held = new Set<number>();
  for (const { isFirst, entered, left } of news) {
    if (isFirst) held.clear();
    for (let at = 0; at < left.length; at += 2) held.delete(left[at] as number);
    for (let at = 0; at < entered.length; at += 2) held.add(entered[at] as number);
  }
  return held;
}

function taken(log: StoredKeyLog): StoredKeys[] {
  const all: StoredKeys[] = [];
  for (let one = log.take(); one !== undefined; one = log.take()) all.push(one);
  return all;
}

describe('what a tier holds', () => {
  it('is told some thousand keys at a time, and ends as it is, whatever came and went meanwhile', () => {
    const log = new StoredKeyLog('disk', () => {});
    const count = 2 * MOST_KEYS_AT_ONCE + 10;
    for (let number = 1; number <= count; number++) log.entered(label(number));
    // Once before its entering is told, once after.
    log.left(label(count));
    const first = log.take() as StoredKeys;
    expect([first.isFirst, first.entered.length / 2, log.hasMore]).toEqual([true, MOST_KEYS_AT_ONCE, true]);
    log.left(label(1));
    log.entered(label(count));
    log.left(label(2));
    log.entered(label(2));
    const rest = taken(log);
    expect(rest.every(({ isFirst, entered }) => !isFirst && entered.length / 2 <= MOST_KEYS_AT_ONCE)).toBe(
      true,
    );
    const held = heldAfter([first, ...rest]);
    expect([held.size, held.has(1), held.has(2), held.has(count)]).toEqual([count - 1, false, true, true]);
    expect(log.hasMore).toBe(false);
  });

  it('is told where it is nothing, once, and its listener is woken by the first change alone', () => {
    let news = 0;
    const log = new StoredKeyLog('host', () => news++);
    expect(log.take()).toMatchObject({ tier: 'host', isFirst: true });
    expect(log.take()).toBeUndefined();
    log.entered(label(1));
    log.entered(label(2));
    expect(news).toBe(1);
    taken(log);
    log.left(label(1));
    expect(news).toBe(2);
    expect(log.take()).toMatchObject({ isFirst: false, left: Int32Array.of(1, -1) });
  });
});
