import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { KeySet } from './key-set.ts';

const pairs = (keys: Int32Array) =>
  Array.from({ length: keys.length / 2 }, (_, at) => `${keys[2 * at]} ${keys[2 * at + 1]}`);

/** Few hashes, so that keys meet in the table. */
const lanes = (number: number) => [number % 5, Math.floor(number / 5) * 1024] as const;
const nameOf = (number: number) => lanes(number).join(' ');

function listed(keys: KeySet, count: number, between: () => void = () => {}): string[] {
  const all: string[] = [];
  let before: number | undefined;
  do {
    const page = keys.page(count, before);
    all.push(...pairs(page.keys));
    before = page.next;
    between();
  } while (before !== undefined);
  return all;
}

describe('a set of keys', () => {
  it('holds what was added and not deleted, and lists each once', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.boolean(), fc.nat(200)), { maxLength: 600 }), (changes) => {
        const keys = new KeySet(1000);
        const model = new Set<string>();
        for (const [isAdded, number] of changes) {
          const name = nameOf(number);
          if (isAdded) {
            expect(keys.add(...lanes(number))).toBe(!model.has(name));
            model.add(name);
          } else expect(keys.delete(...lanes(number))).toBe(model.delete(name));
        }
        expect(keys.size).toBe(model.size);
        expect(listed(keys, 7).sort()).toEqual([...model].sort());
      }),
    );
  });

  it('lists every key that was there throughout, whatever comes and goes between the pieces', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(99), { maxLength: 60 }), (gone) => {
        const keys = new KeySet(1000);
        for (let number = 0; number < 100; number++) keys.add(...lanes(number));
        const leaving = [...gone];
        let coming = 100;
        const all = listed(keys, 9, () => {
          for (const number of leaving.splice(0, 7)) keys.delete(...lanes(number));
          keys.add(...lanes(coming++));
        });
        for (let number = 0; number < 100; number++) {
          if (!gone.includes(number)) expect(all).toContain(nameOf(number));
        }
      }),
    );
  });

  it('knows no more than it may', () => {
    const keys = new KeySet(2);
    expect([1, 2, 3].map((number) => keys.add(number, 0))).toEqual([true, true, false]);
    keys.delete(1, 0);
    expect(keys.add(3, 0)).toBe(true);
    expect(listed(keys, 10).sort()).toEqual(['2 0', '3 0']);
  });
});
