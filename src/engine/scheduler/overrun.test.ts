import { expect, it } from 'vitest';
import { Overrun } from './overrun.ts';

it('follows what one step in a hundred exceeds', () => {
  const overrun = new Overrun(10, 5);
  let seed = 1;
  const uniform = () => {
    seed = (seed * 48_271) % 2_147_483_647;
    return seed / 2_147_483_647;
  };
  let worse = 0;
  for (let step = 0; step < 20_000; step++) {
    const ms = 40 * uniform();
    if (step >= 10_000 && ms > overrun.ms) worse++;
    overrun.observe(ms);
  }
  expect(worse).toBeGreaterThan(50);
  expect(worse).toBeLessThan(200);
});

it('is never below nothing, where all steps are shorter than expected', () => {
  const overrun = new Overrun(1, 5);
  for (let step = 0; step < 100; step++) overrun.observe(-3);
  expect(overrun.ms).toBe(0);
});
