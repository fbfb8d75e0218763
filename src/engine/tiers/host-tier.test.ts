import { describe, expect, it } from 'vitest';
import { type HostBlock, HostTier } from './host-tier.ts';

const BYTES = 10;

function block(number: number, tenant = 'a'): HostBlock {
  return { key: Buffer.alloc(32, number), tenant, bytes: new Uint8Array(BYTES).fill(number) };
}

describe('the tier in the memory of the machine', () => {
  it('keeps to its size, and gives up what was used longest ago', () => {
    const gone: HostBlock[] = [];
    const tier = new HostTier(3 * BYTES, (one) => gone.push(one));
    for (const number of [1, 2, 3]) expect(tier.put(block(number))).toBe(true);
    tier.touch(block(1).key);
    tier.put(block(4));
    expect(gone).toEqual([block(2)]);
    expect([1, 2, 3, 4].filter((number) => tier.has(block(number).key))).toEqual([1, 3, 4]);
    expect(tier.get(block(3).key)).toEqual(block(3).bytes);
    expect(tier.stats()).toEqual({ blocks: 3, bytes: 30, limitBytes: 30, hits: 1, evicted: 1 });
  });

  it('keeps one of each, and none that is larger than itself', () => {
    const tier = new HostTier(2 * BYTES - 1);
    tier.put(block(1));
    tier.put(block(1));
    expect(tier.stats().blocks).toBe(1);
    expect(tier.put({ ...block(2), bytes: new Uint8Array(2 * BYTES) })).toBe(false);
    expect(tier.has(block(1).key)).toBe(true);
  });

  it('tells of labels while their blocks are here, to one who comes late, too', () => {
    const tier = new HostTier(2 * BYTES);
    const labelled = (number: number) => ({ ...block(number), label: { high: number, low: 0 } });
    tier.put(labelled(1));
    const told: string[] = [];
    tier.followLabels({
      entered: ({ high }) => told.push(`+${high}`),
      left: ({ high }) => told.push(`-${high}`),
    });
    tier.put(labelled(2));
    tier.put(labelled(2));
    tier.put(labelled(3));
    tier.put(block(4));
    tier.remove('a');
    expect(told).toEqual(['+1', '+2', '+3', '-1', '-2', '-3']);
  });

  it('lists the last used first, and deletes those of a tenant together', () => {
    const tier = new HostTier(100);
    for (const [number, tenant] of [
      [1, 'a'],
      [2, 'b'],
      [3, 'a'],
    ] as const)
      tier.put(block(number, tenant));
    expect(tier.all().map(({ key }) => key[0])).toEqual([3, 2, 1]);
    expect(tier.remove('a')).toBe(2);
    expect(tier.stats()).toMatchObject({ blocks: 1, bytes: BYTES });
    expect(tier.all()).toEqual([block(2, 'b')]);
  });
});
