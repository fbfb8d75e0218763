import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BlockIndex } from './block-index.ts';

/** Few first bytes, so that keys meet in the table. */
function keyOf(number: number): Uint8Array {
  return Uint8Array.from({ length: 32 }, (_, at) => (at === 0 ? number % 3 : at === 31 ? number : 0));
}

/** High lanes of the labels that it tells of, from now on. */
function labelsIn(index: BlockIndex): Set<number> {
  const labels = new Set<number>();
  index.followLabels({
    entered: ({ high, low }) => {
      expect([low, labels.has(high)]).toEqual([-high, false]);
      labels.add(high);
    },
    left: ({ high }) => expect(labels.delete(high)).toBe(true),
  });
  return labels;
}

const change = fc.oneof(
  { weight: 6, arbitrary: fc.tuple(fc.constant('add' as const), fc.nat(40), fc.nat(4)) },
  { weight: 3, arbitrary: fc.tuple(fc.constant('remove' as const), fc.nat(40), fc.nat(4)) },
  { weight: 1, arbitrary: fc.tuple(fc.constant('segment' as const), fc.nat(40), fc.nat(4)) },
);

describe('the index of a store', () => {
  it('is a map from keys to the newest place of each block, whatever is added and removed', () => {
    fc.assert(
      fc.property(fc.array(change, { maxLength: 200 }), (changes) => {
        const index = new BlockIndex();
        const model = new Map<number, { segment: string; offset: number }>();
        for (const [offset, [kind, number, segment]] of changes.entries()) {
          const [key, name] = [keyOf(number), `segment ${segment}`];
          const known = model.get(number);
          if (kind === 'add') {
            index.add(name, { key, tenant: key, offset, bytes: 144, createdS: offset });
            if (known === undefined || known.segment <= name) model.set(number, { segment: name, offset });
          } else if (kind === 'remove') {
            const id = index.find(key);
            if (id !== undefined) index.remove(id);
            model.delete(number);
          } else {
            const own = [...model].filter(([, place]) => place.segment === name);
            expect(index.removeSegment(name)).toBe(own.length);
            for (const [one] of own) model.delete(one);
          }
        }
        expect(index).toMatchObject({ blocks: model.size, bytes: 100 * model.size });
        for (let number = 0; number <= 40; number++) {
          const id = index.find(keyOf(number));
          const place = model.get(number);
          if (place === undefined) expect(id).toBeUndefined();
          else expect(index.place(id as number)).toEqual({ ...place, bytes: 144 });
        }
      }),
      { numRuns: 300 },
    );
  });

  it('tells of labels exactly while their blocks are found, to one who comes late, too', () => {
    fc.assert(
      fc.property(fc.array(change, { maxLength: 200 }), (changes) => {
        const index = new BlockIndex();
        const told = labelsIn(index);
        for (const [offset, [kind, number, segment]] of changes.entries()) {
          const [key, name] = [keyOf(number), `segment ${segment}`];
          const id = index.find(key);
          const label = number % 4 === 0 ? undefined : { high: number, low: -number };
          if (kind === 'add') index.add(name, { key, tenant: key, offset, bytes: 144, createdS: 1, label });
          else if (kind === 'segment') index.removeSegment(name);
          else if (id !== undefined) index.remove(id);
        }
        const found = Array.from({ length: 41 }, (_, number) => number).filter(
          (number) => number % 4 !== 0 && index.find(keyOf(number)) !== undefined,
        );
        expect([...told].sort((a, b) => a - b)).toEqual(found);
        expect([...labelsIn(index)].sort((a, b) => a - b)).toEqual(found);
      }),
      { numRuns: 200 },
    );
  });

  it('finds each of many blocks', () => {
    const index = new BlockIndex();
    const keys = Array.from({ length: 5000 }, (_, number) => {
      const key = new Uint8Array(32);
      new DataView(key.buffer).setUint32(0, Math.imul(number, 2654435761) >>> 0);
      return key;
    });
    for (const [offset, key] of keys.entries()) {
      index.add('one', { key, tenant: key, offset, bytes: 100, createdS: 7 });
    }
    expect(keys.every((key, offset) => index.place(index.find(key) as number).offset === offset)).toBe(true);
    expect(index.removeSegment('one')).toBe(5000);
    expect(keys.some((key) => index.find(key) !== undefined)).toBe(false);
    expect(index).toMatchObject({ blocks: 0, bytes: 0 });
  });
});
