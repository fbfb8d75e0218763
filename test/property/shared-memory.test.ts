// Engines that share memory, with the real pool memory and the real engine loops: every order in which messages can
// come and steps can end, for a few requests that need more blocks than there are.

import { describe, expect, it } from 'vitest';
import { everyOrder } from './every-order.ts';
import type { Scene, WorldRequest } from './memory-world.ts';

/** Five blocks, of which there are six: only one of two engines can have that many at a time. */
const long = (model: number, enqueuedMs: number): WorldRequest => ({
  model,
  promptTokens: 130,
  newTokens: 2,
  enqueuedMs,
});

const scene = (...requests: readonly WorldRequest[]): Scene => ({
  models: 2,
  blocks: 6,
  firstBlocks: 2,
  requests,
});

describe('two engines that need the same blocks', () => {
  it.each([
    ['at the same moment', scene(long(0, 5), long(1, 5))],
    ['one before the other', scene(long(0, 6), long(1, 5))],
    [
      'while one of their answers grows into a block more',
      scene(long(1, 5), { model: 0, promptTokens: 95, newTokens: 4, enqueuedMs: 5 }),
    ],
    ['and one of them leaves', scene(long(0, 5), { ...long(1, 5), leaves: true })],
    ['with a third request behind', scene(long(0, 5), long(1, 5), { ...long(0, 7), promptTokens: 20 })],
  ])('%s, never wait for each other, nor go round, in whatever order messages come', async (_, given) => {
    const { states, stuck, circles } = await everyOrder(given);
    expect(states).toBeGreaterThan(30);
    expect({ stuck, circles }).toEqual({ stuck: [], circles: [] });
  });
});
