import { expect, it } from 'vitest';
import { shrink } from './shrink.ts';

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i);

it.each([[[]], [[7]], [[3, 90]], [[0, 50, 51, 99]]])(
  'leaves what it takes to fail, and nothing else: %j',
  async (needed) => {
    let tries = 0;
    const fails = async (some: readonly number[]) => {
      tries++;
      return needed.every((one) => some.includes(one));
    };
    expect(await shrink(upTo(100), fails)).toEqual(needed);
    expect(tries).toBeLessThan(100);
  },
);

it('gives up after so many tries, with something that fails', async () => {
  const fails = async (some: readonly number[]) => some.includes(1) && some.includes(98);
  const kept = await shrink(upTo(100), fails, 3);
  expect(await fails(kept)).toBe(true);
});
