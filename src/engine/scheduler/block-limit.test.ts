// At most so many blocks hold memory, and that may change while sequences run.

import { describe, expect, it } from 'vitest';
import { prompt, SteppedEngine } from '../../../test/property/stepped-engine.ts';
import { BLOCK_TOKENS } from '../../compute/backend.ts';
import type { Sequence } from './sequence.ts';

const FIXED = { kind: 'fixed', maxStepTokens: 512 } as const;

describe('a limit on blocks', () => {
  it('is kept, asks for more, and takes what it is allowed', async () => {
    const engine = new SteppedEngine({ blockCount: 100, blockLimit: 4, budget: FIXED });
    const sequence = engine.submit({ prompt: prompt(200), newTokens: 20, ignoreEnd: true });
    await engine.step();
    expect(sequence.computed).toBe(4 * BLOCK_TOKENS);
    expect(engine.lastReport?.blocks).toMatchObject({ limit: 4, held: 4, used: 4, short: true });
    expect(engine.lastReport?.blocks.wanted).toBeGreaterThanOrEqual(7);
    // It waits, asleep, until it is allowed more.
    expect((await engine.step()).items).toEqual([]);
    expect((await engine.step()).items).toEqual([]);
    engine.engine.allow(8);
    await engine.drain();
    engine.checkOutputs();
    expect(engine.lastReport?.blocks).toMatchObject({ limit: 8, held: 7, used: 0, short: false });
  });

  it('that preempts all that ran lets another run at once where there is room', async () => {
    const engine = new SteppedEngine({ blockCount: 100, budget: FIXED });
    const low = engine.submit({ prompt: prompt(200, 1), newTokens: 90, priority: 2, ignoreEnd: true });
    await engine.step();
    const high = engine.submit({ prompt: prompt(20, 2), newTokens: 9, priority: 0 });
    engine.engine.allow(5);
    expect(await engine.engine.step()).toBe(true);
    expect(low.state).toBe('preempted');
    await engine.step();
    expect(high.state).toBe('running');
    engine.engine.allow(100);
    await engine.drain();
    engine.checkOutputs();
  });

  it('that is lowered drops free blocks, preempts the least urgent, and gives the memory back', async () => {
    const engine = new SteppedEngine({ blockCount: 100, budget: FIXED });
    engine.submit({ prompt: prompt(100, 1), newTokens: 1 });
    await engine.drain();
    const [first, second] = [2, 3].map((seed) =>
      engine.submit({ prompt: prompt(100, seed), newTokens: 60, ignoreEnd: true }),
    ) as [Sequence, Sequence];
    await engine.step();
    expect(engine.lastReport?.blocks).toMatchObject({ held: 11, used: 8 });
    engine.engine.allow(8);
    await engine.step();
    expect([first.state, second.state]).toEqual(['running', 'running']);
    engine.engine.allow(5);
    await engine.step();
    expect([first.state, second.state]).toEqual(['running', 'preempted']);
    expect(engine.lastReport?.blocks).toMatchObject({ limit: 5, held: 5, used: 4, short: true });
    expect(engine.backend.released).toBe(6);
    engine.engine.allow(0);
    await engine.step();
    expect(engine.lastReport?.blocks).toMatchObject({ limit: 0, held: 0, used: 0, short: true });
    engine.engine.allow(6);
    await engine.drain();
    engine.checkOutputs();
  });
});
