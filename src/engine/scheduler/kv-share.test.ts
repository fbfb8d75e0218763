import { describe, expect, it } from 'vitest';
import { VOCABULARY } from '../../../test/property/hash-backend.ts';
import { prompt, type Request, SteppedEngine } from '../../../test/property/stepped-engine.ts';
import { BLOCK_TOKENS } from '../../compute/backend.ts';
import { Scheduler } from './scheduler.ts';
import { Sequence } from './sequence.ts';

const FIXED = { kind: 'fixed', maxStepTokens: 512 } as const;

function ask(engine: SteppedEngine, account: string, seed: number, more: Partial<Request> = {}): Sequence {
  const kvShare = account === 'limited' ? 0.25 : undefined;
  const given = { prompt: prompt(3 * BLOCK_TOKENS, seed), newTokens: 40, ignoreEnd: true };
  return engine.submit({ ...given, account, salt: account, kvShare, ...more });
}

function heldBy(engine: SteppedEngine, account: string): number {
  return engine.scheduler.tables.pool.owners?.of(account)?.held ?? 0;
}

/** Blocks of a prompt's beginning that are cached. */
function cached(engine: SteppedEngine, salt: string, seed: number): number {
  const tokens = Int32Array.from(prompt(3 * BLOCK_TOKENS + 1, seed).map((token) => token % VOCABULARY));
  const probe = new Sequence({ id: 'probe', tokens, maxTokens: 999, priority: 1, enqueuedMs: 0, salt });
  return engine.scheduler.tables.match(probe).length;
}

describe('an account with a part of the blocks', () => {
  it('never holds more, running and cached, and all of its sequences end as they would alone', async () => {
    const engine = new SteppedEngine({ blockCount: 64, budget: FIXED });
    for (let seed = 1; seed <= 30; seed++) {
      ask(engine, 'limited', seed, {
        newTokens: 10 + ((seed * 37) % 200),
        priority: (seed % 3) as 0 | 1 | 2,
      });
    }
    let most = 0;
    while (engine.scheduler.running.length + engine.scheduler.waitingCount > 0) {
      await engine.step();
      most = Math.max(most, heldBy(engine, 'limited'));
      expect(most).toBeLessThanOrEqual(16);
    }
    expect(most).toBe(16);
    engine.checkOutputs();
  });

  it('waits for its own sequences to end, while others are admitted in the very next step', async () => {
    const engine = new SteppedEngine({ blockCount: 64, budget: FIXED });
    const own = [1, 2, 3, 4, 5, 6].map((seed) => ask(engine, 'limited', seed));
    await engine.step();
    await engine.step();
    expect(own.filter(({ state }) => state === 'running').length).toBeLessThanOrEqual(5);
    expect(own.at(-1)?.state).toBe('waiting');
    const other = ask(engine, 'other', 50);
    expect((await engine.step()).admitted).toEqual([other]);
    expect(engine.scheduler.demand().short).toBe(false);
    await engine.drain();
    engine.checkOutputs();
  });

  it('loses its own cached blocks first, the longest unused before, and others lose none', async () => {
    const engine = new SteppedEngine({ blockCount: 64, budget: FIXED });
    for (let seed = 1; seed <= 4; seed++) {
      ask(engine, 'other', 10 + seed, { newTokens: 1 });
      await engine.drain();
    }
    for (let seed = 1; seed <= 8; seed++) {
      ask(engine, 'limited', seed, { newTokens: 1, prompt: prompt(3 * BLOCK_TOKENS + 1, seed) });
      await engine.drain();
    }
    expect(heldBy(engine, 'limited')).toBeLessThanOrEqual(16);
    expect([1, 2, 3, 7, 8].map((seed) => cached(engine, 'limited', seed))).toEqual([0, 0, 0, 3, 3]);
    expect([11, 12, 13, 14].map((seed) => cached(engine, 'other', seed))).toEqual([3, 3, 3, 3]);
  });

  it('preempts its own youngest where answers outgrow it, and never another account', async () => {
    const engine = new SteppedEngine({ blockCount: 64, budget: FIXED });
    const others = [21, 22, 23].map((seed) => ask(engine, 'other', seed, { newTokens: 200 }));
    const own = [1, 2, 3, 4].map((seed) => ask(engine, 'limited', seed, { newTokens: 200 }));
    await engine.drain();
    expect(others.map(({ preemptions }) => preemptions)).toEqual([0, 0, 0]);
    expect(own[0]?.preemptions).toBe(0);
    expect(own.at(-1)?.preemptions).toBeGreaterThan(0);
    engine.checkOutputs();
  });

  it('is refused what is larger than its part, with the numbers', () => {
    const scheduler = new Scheduler({ blockCount: 64, budget: FIXED });
    const options = { id: 's', tokens: Int32Array.of(1), priority: 0, enqueuedMs: 0, kvShare: 0.25 } as const;
    expect(scheduler.add(new Sequence({ ...options, maxTokens: 16 * BLOCK_TOKENS + 2 }))).toEqual({
      accepted: false,
      reason:
        "514 tokens need 17 blocks of 32 tokens, but this key may hold 16 of the KV cache's 64 (a kvShare of 0.25); ask for fewer tokens",
      tooLong: 'answer',
    });
    const prompt = new Int32Array(16 * BLOCK_TOKENS + 1);
    const long = new Sequence({ ...options, tokens: prompt, maxTokens: prompt.length + 1 });
    expect(scheduler.add(long)).toMatchObject({ accepted: false, tooLong: 'prompt' });
    expect(scheduler.add(new Sequence({ ...options, maxTokens: 16 * BLOCK_TOKENS + 1 })).accepted).toBe(true);
  });

  it('has a part of what is allowed now, and one sequence of it runs all the same', async () => {
    const engine = new SteppedEngine({ blockCount: 64, budget: FIXED });
    const own = [1, 2, 3].map((seed) => ask(engine, 'limited', seed));
    engine.engine.allow(16);
    await engine.step();
    await engine.step();
    expect(own.map(({ state }) => state)).toEqual(['running', 'waiting', 'waiting']);
    engine.engine.allow(64);
    await engine.step();
    expect(own.map(({ state }) => state)).toEqual(['running', 'running', 'running']);
    await engine.drain();
    engine.checkOutputs();
  });

  it('keeps what others build on, which then counts for nobody', async () => {
    const engine = new SteppedEngine({ blockCount: 64, budget: FIXED });
    const shared = prompt(3 * BLOCK_TOKENS, 1);
    ask(engine, 'limited', 1, { prompt: [...shared, 5], newTokens: 1, salt: '' });
    await engine.drain();
    ask(engine, 'other', 1, { prompt: [...shared, ...prompt(2 * BLOCK_TOKENS, 2)], newTokens: 1, salt: '' });
    await engine.drain();
    for (let seed = 3; seed <= 9; seed++) {
      ask(engine, 'limited', seed, { newTokens: 1, prompt: prompt(3 * BLOCK_TOKENS + 1, seed), salt: '' });
      await engine.drain();
    }
    expect(cached(engine, '', 1)).toBe(3);
    expect(heldBy(engine, 'limited')).toBeLessThanOrEqual(16);
    engine.checkOutputs();
  });
});
