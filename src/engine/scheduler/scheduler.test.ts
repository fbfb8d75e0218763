import { describe, expect, it } from 'vitest';
import { prompt, type Request, SteppedEngine, stepMs } from '../../../test/property/stepped-engine.ts';
import { BLOCK_TOKENS } from '../../compute/backend.ts';
import { noDraft } from './draft.ts';
import { checkIntegrity } from './integrity.ts';
import { Scheduler, type SchedulerOptions } from './scheduler.ts';
import { Sequence } from './sequence.ts';
import type { StepPlan } from './step-plan.ts';

const FIXED = { kind: 'fixed', maxStepTokens: 512 } as const;

function countsOf(plan: StepPlan): Record<string, number> {
  return Object.fromEntries(plan.items.map(({ sequence, count }) => [sequence.id, count]));
}

async function stepUntil(engine: SteppedEngine, done: () => boolean): Promise<void> {
  for (let i = 0; !done(); i++) {
    if (i === 10_000) throw new Error('it never came to pass');
    await engine.step();
  }
}

describe('running sequences and chunks', () => {
  it('mixes decodes and a prefill chunk in one step, and never makes a decode wait', async () => {
    const engine = new SteppedEngine({ blockCount: 400, budget: { kind: 'fixed', maxStepTokens: 66 } });
    const chats = [1, 2].map((seed) => engine.submit({ prompt: prompt(8, seed), newTokens: 150 }));
    await engine.step();
    const long = engine.submit({ prompt: prompt(2000, 3), newTokens: 1 });
    while (long.state !== 'finished') {
      const counts = countsOf(await engine.step());
      for (const chat of chats) if (chat.state === 'running') expect(counts[chat.id]).toBe(1);
      expect(counts[long.id]).toSatisfy((count: number) => count === 64 || long.state === 'finished');
    }
  });

  it('starts a short prompt in the very next step, however long the one before it', async () => {
    const engine = new SteppedEngine({ blockCount: 400, budget: { kind: 'fixed', maxStepTokens: 64 } });
    engine.submit({ prompt: prompt(2000, 1), newTokens: 1 });
    expect(countsOf(await engine.step())).toEqual({ s0: 64 });
    engine.submit({ prompt: prompt(30, 2), newTokens: 9 });
    expect(countsOf(await engine.step())).toEqual({ s0: 48, s1: 16 });
    expect(countsOf(await engine.step())).toMatchObject({ s1: 14 });
  });

  it('takes prompts of one length through one after the other', async () => {
    const engine = new SteppedEngine({ blockCount: 400, budget: { kind: 'fixed', maxStepTokens: 256 } });
    const all = [1, 2, 3, 4].map((seed) => engine.submit({ prompt: prompt(1000, seed), newTokens: 100 }));
    const steps: number[] = [];
    for (const sequence of all) {
      await stepUntil(engine, () => sequence.length > 1000);
      steps.push(engine.steps);
    }
    expect(steps[0]).toBeLessThanOrEqual(6);
    expect(steps[3]).toBeLessThanOrEqual(20);
  });

  it('lets the more urgent of two prompts go first', async () => {
    const engine = new SteppedEngine({ blockCount: 400, budget: { kind: 'fixed', maxStepTokens: 256 } });
    const low = engine.submit({ prompt: prompt(1000, 1), newTokens: 2, priority: 2 });
    await engine.step();
    const high = engine.submit({ prompt: prompt(1000, 2), newTokens: 2, priority: 0 });
    await stepUntil(engine, () => high.state === 'finished');
    expect(low.state).toBe('running');
  });

  it('keeps steps near the target once it knows the machine', async () => {
    const budget = { kind: 'adaptive', targetStepMs: 100, maxStepTokens: 2048 } as const;
    const engine = new SteppedEngine({ blockCount: 1000, budget });
    for (let seed = 1; seed <= 6; seed++) engine.submit({ prompt: prompt(1500, seed), newTokens: 20 });
    const durations: number[] = [];
    while (engine.scheduler.running.length + engine.scheduler.waitingCount > 0) {
      durations.push(stepMs((await engine.step()).load));
    }
    const settled = durations.slice(10);
    expect(Math.max(...settled)).toBeLessThan(125);
    expect(settled.filter((ms) => ms > 75).length).toBeGreaterThan(settled.length / 2);
  });

  it('goes on with a prompt though decodes alone take all of the target', async () => {
    const budget = { kind: 'adaptive', targetStepMs: 1, maxStepTokens: 256 } as const;
    const engine = new SteppedEngine({ blockCount: 400, budget });
    const ask = (length: number, seed: number) =>
      engine.submit({ prompt: prompt(length, seed), newTokens: 200, ignoreEnd: true });
    const chats = Array.from({ length: 31 }, (_, i) => ask(2, i + 2));
    await stepUntil(engine, () => chats.every(({ length }) => length > 2));
    const long = ask(320, 1);
    const before = engine.steps;
    await stepUntil(engine, () => long.length > 320);
    expect(engine.steps - before).toBeLessThanOrEqual(12);
    expect(chats.every(({ state }) => state === 'running')).toBe(true);
  });

  it('runs no more at once than the batch limit, and without one as many as fit', async () => {
    for (const [maxBatchSize, expected] of [
      [3, 3],
      [undefined, 20],
    ] as const) {
      const options = maxBatchSize === undefined ? {} : { maxBatchSize };
      const engine = new SteppedEngine({ blockCount: 100, budget: FIXED, ...options });
      for (let seed = 1; seed <= 20; seed++) engine.submit({ prompt: prompt(4, seed), newTokens: 30 });
      await engine.step();
      expect(engine.scheduler.running.length).toBeLessThanOrEqual(expected);
      expect(engine.scheduler.running.length).toBeGreaterThan(expected - 3);
      await engine.drain();
    }
  });

  it('gives an empty plan where there is nothing to do', async () => {
    const engine = new SteppedEngine({ blockCount: 4, budget: FIXED });
    expect((await engine.step()).items).toEqual([]);
  });
});

describe('order and aging', () => {
  it('admits by priority, then age', async () => {
    const engine = new SteppedEngine({ blockCount: 100, budget: FIXED, maxBatchSize: 1 });
    const order = ([2, 1, 0, 1, 0] as const).map((priority, i) => {
      engine.nowMs = i;
      return engine.submit({ prompt: prompt(4, i + 1), newTokens: 1, priority });
    });
    const admitted: Sequence[] = [];
    while (admitted.length < 5) admitted.push(...(await engine.step()).admitted);
    expect(admitted.map((sequence) => order.indexOf(sequence))).toEqual([2, 4, 1, 3, 0]);
  });

  it('serves LOW under a flood of HIGH as soon as aging promises: no HIGH more than 20 s younger goes before it', async () => {
    const engine = new SteppedEngine({ blockCount: 40, budget: FIXED, maxBatchSize: 2 });
    const flood = (seed: number) => engine.submit({ prompt: prompt(40, seed), newTokens: 40, priority: 0 });
    for (let seed = 2; seed < 12; seed++) flood(seed);
    const low = engine.submit({ prompt: prompt(40, 1), newTokens: 40, priority: 2 });
    const youngest: number[] = [];
    for (let step = 0; low.state !== 'finished'; step++) {
      if (step % 10 === 0) flood(100 + step);
      const { admitted } = await engine.step();
      if (low.state === 'waiting') youngest.push(...admitted.map(({ enqueuedMs }) => enqueuedMs));
      if (step === 20_000) throw new Error('LOW starved');
    }
    expect(Math.max(...youngest)).toBeLessThanOrEqual(low.enqueuedMs + 20_000);
    // The flood exceeds the capacity, so LOW is served because of its age and not in a gap.
    expect(youngest.length).toBeGreaterThan(50);
    expect(low.preemptions).toBe(0);
    expect(engine.scheduler.waitingCount).toBeGreaterThan(10);
  });

  it('lets nobody overtake the first in the queue that does not fit yet', async () => {
    const engine = new SteppedEngine({ blockCount: 20, budget: FIXED });
    const first = engine.submit({ prompt: prompt(10 * BLOCK_TOKENS, 1), newTokens: 10 });
    await engine.step();
    const large = engine.submit({ prompt: prompt(12 * BLOCK_TOKENS, 2), newTokens: 5 });
    const small = engine.submit({ prompt: prompt(8, 3), newTokens: 5 });
    await stepUntil(engine, () => first.state === 'finished');
    expect([large.state, small.state]).toEqual(['waiting', 'waiting']);
    await engine.step();
    expect([large.state, small.state]).toEqual(['running', 'running']);
  });

  it('stops admitting at the watermark, but admits one alone whatever its size', async () => {
    const engine = new SteppedEngine({ blockCount: 20, budget: FIXED });
    const large = engine.submit({ prompt: prompt(20 * BLOCK_TOKENS - 3, 1), newTokens: 3 });
    await engine.drain();
    expect(large.state).toBe('finished');
    for (const seed of [2, 3]) engine.submit({ prompt: prompt(8 * BLOCK_TOKENS, seed), newTokens: 5 });
    engine.submit({ prompt: prompt(2 * BLOCK_TOKENS, 4), newTokens: 5 });
    await engine.step();
    expect(engine.scheduler.running).toHaveLength(2);
    await engine.drain();
  });
});

describe('accounts', () => {
  const ask = (engine: SteppedEngine, account: string, seed: number, more: Partial<Request> = {}) =>
    engine.submit({ prompt: prompt(40, seed), newTokens: 60, ignoreEnd: true, account, ...more });

  it.each([1, 2] as const)(
    'that run nothing get in at the next step, though a batch of another, of priority %i, has all lanes',
    async (priority) => {
      const engine = new SteppedEngine({ blockCount: 200, budget: FIXED, maxBatchSize: 4 });
      const batch = Array.from({ length: 20 }, (_, i) => ask(engine, 'batch', i + 1, { priority }));
      await stepUntil(engine, () => batch[3]?.length === 42);
      const [one, other] = [ask(engine, 'one', 50), ask(engine, 'other', 51)];
      const { admitted, preempted } = await engine.step();
      expect(admitted).toEqual([one, other]);
      expect(preempted).toEqual([batch[3], batch[2]]);
      await stepUntil(engine, () => one.state === 'finished');
      expect([one.preemptions, other.preemptions]).toEqual([0, 0]);
      await engine.drain();
      engine.checkOutputs();
    },
  );

  it('that run nothing get in at the next step, though a batch of another has all blocks', async () => {
    const engine = new SteppedEngine({ blockCount: 20, budget: FIXED });
    const batch = Array.from({ length: 20 }, (_, i) => ask(engine, 'batch', i + 1));
    await stepUntil(engine, () => (batch[0]?.length ?? 0) > 50);
    const one = ask(engine, 'one', 50, { prompt: prompt(100, 50) });
    expect((await engine.step()).admitted).toContain(one);
    await stepUntil(engine, () => one.state === 'finished');
    expect(one.preemptions).toBe(0);
    await engine.drain();
    engine.checkOutputs();
  });

  it('that run nothing get in at the next step, though decodes of another take all of its time', async () => {
    const budget = { kind: 'adaptive', targetStepMs: 1, maxStepTokens: 256 } as const;
    const engine = new SteppedEngine({ blockCount: 400, budget });
    const batch = Array.from({ length: 60 }, (_, i) => ask(engine, 'batch', i + 1, { newTokens: 200 }));
    await stepUntil(engine, () => batch.filter(({ length }) => length > 40).length >= 32);
    const one = ask(engine, 'one', 90);
    expect((await engine.step()).admitted).toEqual([one]);
    engine.cancel(one);
    for (const each of batch) engine.cancel(each);
    await engine.drain();
  });

  it('get on though others come without end: who made place must come further each time', async () => {
    const engine = new SteppedEngine({ blockCount: 200, budget: FIXED, maxBatchSize: 2 });
    const batch = [1, 2].map((seed) => ask(engine, 'batch', seed, { newTokens: 300 }));
    for (let step = 0; batch.some(({ state }) => state !== 'finished'); step++) {
      if (step % 7 === 0) ask(engine, `single ${step % 3}`, 100 + step, { newTokens: 5 });
      await engine.step();
      if (step === 5000) throw new Error('the batch starved');
    }
    expect(Math.max(...batch.map(({ preemptions }) => preemptions))).toBeLessThanOrEqual(4);
    await engine.drain();
    engine.checkOutputs();
  });

  it('do not wait with a prompt behind all prompts of another that run', async () => {
    const engine = new SteppedEngine({ blockCount: 400, budget: { kind: 'fixed', maxStepTokens: 128 } });
    const batch = [1, 2, 3, 4, 5].map((seed) =>
      ask(engine, 'batch', seed, { prompt: prompt(1000, seed), newTokens: 2 }),
    );
    await stepUntil(engine, () => engine.scheduler.running.length === 5);
    const one = ask(engine, 'one', 50, { prompt: prompt(1000, 50), newTokens: 2 });
    await stepUntil(engine, () => one.state === 'finished');
    expect(batch.filter(({ state }) => state === 'finished').length).toBeLessThanOrEqual(2);
    await engine.drain();
    engine.checkOutputs();
  });
});

describe('the shared prefix', () => {
  const tenBlocks = prompt(10 * BLOCK_TOKENS);
  const requests: Request[] = [7, 8].map((seed) => ({
    prompt: [...tenBlocks, ...prompt(20, seed)],
    newTokens: 60,
  }));
  const [one, other] = requests as [Request, Request];

  it('is computed once for two running requests: 320 cached tokens, two references, no prefill', async () => {
    const engine = new SteppedEngine({ blockCount: 100, budget: FIXED });
    const first = engine.submit(one);
    await engine.step();
    const before = engine.scheduler.stats(0).counters.computedTokens;
    const second = engine.submit(other);
    expect(countsOf(await engine.step())).toEqual({ s0: 1, s1: 20 });
    expect(second.cachedTokens).toBe(320);
    expect(engine.scheduler.stats(0).counters.computedTokens - before).toBe(21);
    expect(second.blocks.slice(0, 10)).toEqual(first.blocks.slice(0, 10));
    const { pool } = engine.scheduler.tables;
    expect(first.blocks.slice(0, 10).map((block) => pool.references(block))).toEqual(Array(10).fill(2));
    await engine.drain();
    engine.checkOutputs();
  });

  it('is computed once for two that arrive together, while others go before the one that waits', async () => {
    const engine = new SteppedEngine({ blockCount: 100, budget: { kind: 'fixed', maxStepTokens: 96 } });
    const [first, second] = [engine.submit(one), engine.submit(other)];
    const third = engine.submit({ prompt: prompt(20, 9), newTokens: 2 });
    await engine.step();
    expect([first.state, second.state, third.state]).toEqual(['running', 'waiting', 'running']);
    expect(engine.scheduler.stats(0).deferred).toBe(1);
    await stepUntil(engine, () => second.state === 'running');
    expect(first.computed).toBeGreaterThanOrEqual(320);
    expect(second.cachedTokens).toBe(320);
    await engine.drain();
    engine.checkOutputs();
  });

  it.each(['cancel', 'preempt'] as const)(
    'is taken over by the one that waits on %s of its owner',
    async (how) => {
      const engine = new SteppedEngine({ blockCount: 100, budget: { kind: 'fixed', maxStepTokens: 96 } });
      const [first, second] = [engine.submit(one), engine.submit(other)];
      await engine.step();
      await engine.step();
      expect(second.state).toBe('waiting');
      if (how === 'cancel') engine.cancel(first);
      else engine.scheduler.preempt(first);
      checkIntegrity(engine.scheduler);
      await stepUntil(engine, () => second.state === 'running');
      await engine.drain();
      engine.checkOutputs();
    },
  );

  it('makes its owner as urgent as the one that waits for it', async () => {
    const engine = new SteppedEngine({ blockCount: 400, budget: { kind: 'fixed', maxStepTokens: 64 } });
    const owner = engine.submit({ ...one, priority: 2 });
    await engine.step();
    const urgent = engine.submit({ ...other, priority: 0 });
    const normal = engine.submit({ prompt: prompt(900, 5), newTokens: 2, priority: 1 });
    await engine.step();
    expect(owner.rank).toBe(urgent.key);
    await stepUntil(engine, () => urgent.state === 'running');
    expect(owner.rank).toBe(owner.key);
    expect(normal.computed).toBeLessThan(owner.computed);
    await engine.drain();
  });

  it('is never shared between salts', async () => {
    const engine = new SteppedEngine({ blockCount: 100, budget: FIXED });
    const [a, b] = ['a', 'b'].map((salt) => engine.submit({ ...one, salt })) as [Sequence, Sequence];
    await engine.step();
    expect([a.state, b.state]).toEqual(['running', 'running']);
    expect([a.cachedTokens, b.cachedTokens]).toEqual([0, 0]);
    expect(a.blocks.some((block) => b.blocks.includes(block))).toBe(false);
    await engine.drain();
    const again = engine.submit({ ...one, salt: 'a' });
    const stranger = engine.submit({ ...one, salt: 'c' });
    await engine.drain();
    expect([again.cachedTokens, stranger.cachedTokens]).toEqual([320, 0]);
  });

  it('stays cached after both ended, and goes least recently used first, never while in use', async () => {
    const engine = new SteppedEngine({ blockCount: 32, budget: FIXED });
    engine.submit({ ...one, newTokens: 1 });
    await engine.drain();
    const { used, cached } = engine.scheduler.stats(0).blocks;
    expect({ used, cached }).toEqual({ used: 0, cached: 10 });
    engine.submit({ prompt: prompt(10 * BLOCK_TOKENS + 1, 2), newTokens: 1 });
    await engine.drain();
    const user = engine.submit({ ...other, newTokens: 60 });
    await engine.step();
    expect(user.cachedTokens).toBe(320);
    // 11 of 32 blocks are in use, 10 hold the second prompt: 15 for a third must evict 4 of those.
    engine.submit({ prompt: prompt(15 * BLOCK_TOKENS - 1, 3), newTokens: 1 });
    await engine.step();
    const matched = (seed: number) => {
      const tokens = Int32Array.from(prompt(10 * BLOCK_TOKENS + 1, seed));
      const probe = new Sequence({ id: 'probe', tokens, maxTokens: 999, priority: 1, enqueuedMs: 0 });
      return engine.scheduler.tables.match(probe).length;
    };
    expect(matched(1)).toBe(10);
    expect(matched(2)).toBe(6);
    await engine.drain();
    engine.checkOutputs();
  });

  it('grows with the chat: the next turn finds the answer too', async () => {
    const engine = new SteppedEngine({ blockCount: 100, budget: FIXED });
    const turn = engine.submit({ prompt: prompt(20), newTokens: 100 });
    await engine.drain();
    const next = engine.submit({ prompt: [...turn.tokens, ...prompt(9, 4)], newTokens: 5 });
    await engine.drain();
    expect(next.cachedTokens).toBe(BLOCK_TOKENS * Math.floor((turn.length - 1) / BLOCK_TOKENS));
    expect(next.cachedTokens).toBeGreaterThanOrEqual(BLOCK_TOKENS);
  });
});

describe('several choices', () => {
  it('of one prompt share its full blocks, compute the rest once each, and differ afterwards', async () => {
    const engine = new SteppedEngine({ blockCount: 100, budget: FIXED });
    const all = [0, 1, 2, 3].map((choice) => engine.submit({ prompt: prompt(70), newTokens: 40, choice }));
    await engine.step();
    // The others waited for the first one's blocks rather than compute them too.
    expect(engine.scheduler.waitingCount).toBe(3);
    expect(engine.scheduler.stats(0).counters.computedTokens).toBe(70);
    await engine.step();
    expect(engine.scheduler.running).toHaveLength(4);
    expect(engine.scheduler.stats(0).counters.computedTokens).toBe(70 + 1 + 3 * (70 - 64));
    expect(engine.scheduler.stats(0).blocks.used).toBe(2 + 4);
    expect(engine.scheduler.tables.pool.references(all[0]?.blocks[0] as number)).toBe(4);
    await engine.drain();
    engine.checkOutputs();
    expect(new Set(all.map(({ tokens }) => tokens.join())).size).toBe(4);
  });
});

describe('memory pressure', () => {
  it('finishes 40 requests of 6 to 20 blocks in a pool of 64, with preemptions and the right outputs', async () => {
    const engine = new SteppedEngine({ blockCount: 64, budget: FIXED });
    for (let i = 0; i < 40; i++) {
      const blocks = 6 + ((i * 5) % 15);
      const length = 2 * BLOCK_TOKENS + i;
      const newTokens = blocks * BLOCK_TOKENS - length;
      engine.submit({ prompt: prompt(length, i + 1), newTokens, ignoreEnd: true });
    }
    await engine.drain();
    engine.checkOutputs();
    expect(engine.scheduler.stats(0).counters.preemptions).toBeGreaterThan(10);
    expect(engine.scheduler.stats(0).blocks.used).toBe(0);
  });

  it('refuses at once what can never fit, with the numbers, and takes what just fits', async () => {
    const scheduler = new Scheduler({ blockCount: 64, budget: FIXED });
    const sequence = (maxTokens: number) =>
      new Sequence({ id: 's', tokens: Int32Array.of(1), maxTokens, priority: 0, enqueuedMs: 0 });
    expect(scheduler.add(sequence(65 * BLOCK_TOKENS))).toEqual({
      accepted: false,
      reason: '2080 tokens need 65 blocks of 32 tokens, but the KV cache has 64',
      tooLong: 'answer',
    });
    expect(scheduler.waitingCount).toBe(0);
    expect(scheduler.add(sequence(64 * BLOCK_TOKENS + 1))).toEqual({ accepted: true });
    expect(scheduler.add(sequence(64 * BLOCK_TOKENS + 2)).accepted).toBe(false);
  });

  it('preempts the lowest priority, the youngest of it first, which keeps its age and resumes from the cache', async () => {
    const engine = new SteppedEngine({ blockCount: 10, budget: FIXED, watermark: 1 });
    const ask = (seed: number, priority: 0 | 2) => {
      engine.nowMs += 1;
      return engine.submit({ prompt: prompt(2 * BLOCK_TOKENS - 5, seed), newTokens: 90, priority });
    };
    const [olderLow, youngerLow, high] = [ask(1, 2), ask(2, 2), ask(3, 0)];
    ask(4, 0);
    ask(5, 0);
    const keyBefore = youngerLow.key;
    let plan = await engine.step();
    while (plan.preempted.length === 0) plan = await engine.step();
    expect(plan.preempted[0]).toBe(youngerLow);
    expect(olderLow.preemptions + high.preemptions).toBeLessThanOrEqual(1);
    expect(youngerLow.key).toBe(keyBefore);
    expect(plan.admitted).toEqual([]);
    await engine.drain();
    engine.checkOutputs();
  });

  it('lets a second prompt wait for a block rather than take one from a decode', async () => {
    const engine = new SteppedEngine({
      blockCount: 8,
      watermark: 1,
      budget: { kind: 'fixed', maxStepTokens: 42 },
    });
    for (const seed of [3, 4]) {
      engine.submit({ prompt: prompt(28, seed), newTokens: 90, priority: 2, ignoreEnd: true });
    }
    for (let i = 0; i < 5; i++) await engine.step();
    engine.submit({ prompt: prompt(3 * BLOCK_TOKENS - 3, 1), newTokens: 2, priority: 0 });
    const second = engine.submit({ prompt: prompt(2 * BLOCK_TOKENS - 3, 2), newTokens: 2, priority: 1 });
    const waited: boolean[] = [];
    await stepUntil(engine, () => {
      const { freeCount } = engine.scheduler.tables.pool;
      waited.push(freeCount === 0 && second.state === 'running' && second.computed === BLOCK_TOKENS);
      return second.state === 'finished';
    });
    expect(waited).toContain(true);
    await engine.drain();
    engine.checkOutputs();
  });

  it('resumes a preempted sequence without computing its cached blocks again', async () => {
    const engine = new SteppedEngine({ blockCount: 20, budget: FIXED });
    const sequence = engine.submit({ prompt: prompt(100), newTokens: 50 });
    await engine.step();
    await engine.step();
    engine.scheduler.preempt(sequence);
    expect(sequence.state).toBe('preempted');
    expect(countsOf(await engine.step())).toEqual({ s0: 102 - 96 });
    expect(sequence.cachedTokens).toBe(0);
    await engine.drain();
    engine.checkOutputs();
  });
});

describe('the cycle', () => {
  it('passes over a sequence that was cancelled during the step', async () => {
    const engine = new SteppedEngine({ blockCount: 20, budget: FIXED });
    const [gone, stays] = [1, 2].map((seed) => engine.submit({ prompt: prompt(40, seed), newTokens: 9 })) as [
      Sequence,
      Sequence,
    ];
    await engine.step(() => engine.cancel(gone));
    expect(gone.length).toBe(40);
    expect(stays.length).toBe(41);
    expect(engine.scheduler.stats(0).blocks.used).toBe(2);
    await engine.drain();
    engine.checkOutputs();
  });

  it('cancels in any state, and twice', async () => {
    const engine = new SteppedEngine({ blockCount: 20, budget: FIXED, maxBatchSize: 1 });
    const all = [1, 2, 3].map((seed) => engine.submit({ prompt: prompt(40, seed), newTokens: 9 }));
    await engine.step();
    for (const sequence of [...all, ...all]) engine.cancel(sequence);
    await engine.step();
    for (const sequence of all) engine.cancel(sequence);
    await engine.step();
    expect(engine.scheduler.waitingCount + engine.scheduler.running.length).toBe(0);
  });

  it('refuses steps out of order and a wrong number of tokens', async () => {
    const engine = new SteppedEngine({ blockCount: 20, budget: FIXED });
    const sequence = engine.submit({ prompt: prompt(40), newTokens: 9 });
    const { scheduler } = engine;
    expect(() => scheduler.add(sequence)).toThrow('added before');
    expect(() => scheduler.preempt(sequence)).toThrow('is waiting');
    const plan = scheduler.plan(0);
    expect(() => scheduler.plan(0)).toThrow('not committed');
    expect(() => scheduler.commit(plan, [], 1)).toThrow('samples 1, got tokens of 0');
    scheduler.commit(plan, [[5]], 1);
    expect(() => scheduler.commit(plan, [[5]], 1)).toThrow('and once');
    expect([...sequence.tokens.subarray(40)]).toEqual([5]);
  });

  it('refuses limits that make no sense', async () => {
    expect(() => new Scheduler({ blockCount: 4, budget: FIXED, maxBatchSize: 0 })).toThrow('at least 1');
    expect(() => new Scheduler({ blockCount: 4, budget: FIXED, watermark: 1.5 })).toThrow('not 1.5');
    expect(() => new Scheduler({ blockCount: 4, budget: FIXED, blockLimit: -1 })).toThrow('not -1');
  });

  it('cuts a draft to what the answer and the step have room for', () => {
    const drafted = (maxTokens: number, maxStepTokens: number) => {
      const scheduler = new Scheduler({ blockCount: 4, budget: { kind: 'fixed', maxStepTokens } });
      const tokens = Int32Array.of(1, 2, 3);
      const sequence = new Sequence({ id: 's', tokens, maxTokens, priority: 0, enqueuedMs: 0 });
      scheduler.add(sequence);
      scheduler.commit(scheduler.plan(0), [[4]], 1);
      const draft = { ...noDraft, tokens: [5, 6, 7, 8, 9] };
      const [item] = scheduler.plan(1, () => new Map([[sequence, draft]])).items;
      return item?.draft.tokens;
    };
    expect(drafted(100, 512)).toEqual([5, 6, 7, 8, 9]);
    // The token after the draft is the last of the answer.
    expect(drafted(8, 512)).toEqual([5, 6, 7]);
    expect(drafted(5, 512)).toEqual([]);
    expect(drafted(100, 4)).toEqual([5, 6, 7]);
  });

  it('computes a draft with the end of a prompt, but not where recurrent states are kept there, and not with an earlier chunk', () => {
    const planned = (maxStepTokens: number, more: Partial<SchedulerOptions> = {}) => {
      const scheduler = new Scheduler({ blockCount: 4, budget: { kind: 'fixed', maxStepTokens }, ...more });
      const tokens = Int32Array.from({ length: 40 }, (_, i) => i);
      const sequence = new Sequence({ id: 's', tokens, maxTokens: 60, priority: 0, enqueuedMs: 0 });
      scheduler.add(sequence);
      const draft = { ...noDraft, tokens: [5, 6, 7] };
      const plan = scheduler.plan(0, () => new Map([[sequence, draft]]));
      const sampled = plan.items
        .filter(({ samples }) => samples)
        .map(({ draft }) => [5, 9].slice(0, 1 + draft.tokens.length));
      scheduler.commit(plan, sampled, 1);
      return { counts: plan.items.map(({ count, draft }) => [count, draft.tokens.length]), sequence };
    };
    const { counts, sequence } = planned(512);
    expect(counts).toEqual([[43, 3]]);
    expect([sequence.length, sequence.computed]).toEqual([42, 41]);
    expect(planned(512, { stateSlots: 8 }).counts).toEqual([[40, 0]]);
    expect(planned(32).counts).toEqual([[32, 0]]);
  });

  it('tells how it stands', async () => {
    const engine = new SteppedEngine({
      blockCount: 20,
      budget: { kind: 'fixed', maxStepTokens: 64 },
      maxBatchSize: 2,
    });
    engine.submit({ prompt: prompt(10, 1), newTokens: 9, priority: 0 });
    engine.submit({ prompt: prompt(200, 2), newTokens: 9 });
    engine.submit({ prompt: prompt(20, 3), newTokens: 9 });
    engine.nowMs = 1000;
    engine.submit({ prompt: prompt(20, 4), newTokens: 9, priority: 2 });
    const { load } = await engine.step();
    const stats = engine.scheduler.stats(3000);
    expect(stats.queues).toEqual([
      { priority: 0, waiting: 0, oldestMs: 0 },
      { priority: 1, waiting: 1, oldestMs: 3000 },
      { priority: 2, waiting: 1, oldestMs: 2000 },
    ]);
    expect(stats.running.map(({ id, phase, tokens, ageMs }) => [id, phase, tokens, ageMs])).toEqual([
      ['s0', 'decode', 11, 3000],
      ['s1', 'prefill', 200, 3000],
    ]);
    const { total, used, cached, free } = stats.blocks;
    expect([total, used + cached + free]).toEqual([20, 20]);
    expect(stats.counters).toMatchObject({
      admissions: 2,
      prefixQueriedTokens: 210,
      computedTokens: load.tokens,
    });
  });
});

describe('texts that are computed whole', () => {
  const embed = (engine: SteppedEngine, length: number, seed: number) =>
    engine.submit({ prompt: prompt(length, seed), newTokens: 1, pooling: 'mean' });
  const whole = (blockCount: number, maxStepTokens: number, more = {}) =>
    new SteppedEngine({ blockCount, budget: { kind: 'fixed', maxStepTokens }, wholeTexts: true, ...more });

  it('are put into a step as many as the budget holds, in their order, and never cut', async () => {
    const engine = whole(100, 100);
    for (const [seed, length] of [40, 50, 30, 10, 60].entries()) embed(engine, length, seed + 1);
    expect(countsOf(await engine.step())).toEqual({ s0: 40, s1: 50 });
    expect(countsOf(await engine.step())).toEqual({ s2: 30, s3: 10, s4: 60 });
    engine.checkOutputs();
  });

  it('go alone where one is larger than the budget', async () => {
    const engine = whole(100, 100);
    for (const [seed, length] of [20, 700, 20].entries()) embed(engine, length, seed + 1);
    expect(countsOf(await engine.step())).toEqual({ s0: 20 });
    expect(countsOf(await engine.step())).toEqual({ s1: 700 });
    expect(countsOf(await engine.step())).toEqual({ s2: 20 });
    engine.checkOutputs();
  });

  it('leave no block behind, and find none of a text before', async () => {
    const engine = whole(10, 1000);
    for (let i = 0; i < 3; i++) embed(engine, 100, 1);
    expect(countsOf(await engine.step())).toEqual({ s0: 100, s1: 100 });
    const { pool, prefixes } = engine.scheduler.tables;
    expect([pool.usedCount, prefixes.size]).toEqual([0, 0]);
    expect(countsOf(await engine.step())).toEqual({ s2: 100 });
    expect(engine.scheduler.stats(0).counters).toMatchObject({ prefixQueriedTokens: 0, computedTokens: 300 });
    engine.checkOutputs();
  });

  it('wait for blocks where there are too few, and say how many they want', async () => {
    const engine = whole(64, 1000, { blockLimit: 4 });
    embed(engine, 500, 1);
    expect((await engine.step()).items).toEqual([]);
    const { wanted, short } = engine.scheduler.demand();
    expect(short).toBe(true);
    expect(wanted).toBeGreaterThanOrEqual(16);
    engine.engine.allow(wanted);
    expect(countsOf(await engine.step())).toEqual({ s0: 500 });
  });

  it('fill steps of about the target once it knows the machine', async () => {
    const budget = { kind: 'adaptive', targetStepMs: 100, maxStepTokens: 2048 } as const;
    const engine = new SteppedEngine({ blockCount: 1000, budget, wholeTexts: true });
    for (let seed = 1; seed <= 200; seed++) embed(engine, 30, seed);
    const durations: number[] = [];
    while (engine.scheduler.waitingCount > 0) durations.push(stepMs((await engine.step()).load));
    expect(Math.max(...durations)).toBeLessThan(125);
    expect(durations.slice(8, -1).every((ms) => ms > 75)).toBe(true);
  });
});

it('a model whose texts are computed whole continues none', () => {
  const engine = new SteppedEngine({ blockCount: 4, budget: FIXED, wholeTexts: true });
  expect(() => engine.submit({ prompt: [1], newTokens: 1 })).toThrow('cannot continue');
});
