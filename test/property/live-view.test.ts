// Snapshots of an engine over random traffic: applied one after the other, they give the true state each time.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { applyChange, type EngineSnapshot } from '../../src/engine/live/snapshot.ts';
import type { Priority } from '../../src/engine/scheduler/sequence.ts';
import { cases } from '../support/thorough.ts';
import { prompt, SteppedEngine } from './stepped-engine.ts';

const command = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('submit' as const),
      seed: fc.integer({ min: 1, max: 3 }),
      length: fc.integer({ min: 1, max: 150 }),
      newTokens: fc.integer({ min: 1, max: 80 }),
      priority: fc.constantFrom<Priority>(0, 1, 2),
      salt: fc.constantFrom('', 'a'),
      choices: fc.integer({ min: 1, max: 3 }),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('step' as const), count: fc.integer({ min: 1, max: 9 }) }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('cancel' as const), which: fc.nat({ max: 100 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('preempt' as const), which: fc.nat({ max: 100 }) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('allow' as const), blocks: fc.integer({ min: 5, max: 24 }) }),
  },
);

const scenario = fc.record({
  blockCount: fc.integer({ min: 8, max: 24 }),
  stateSlots: fc.constantFrom(undefined, undefined, 3, 6),
  snapshotEvery: fc.integer({ min: 1, max: 4 }),
  commands: fc.array(command, { minLength: 1, maxLength: 25, size: 'max' }),
});

/** Knows only what snapshots have said. */
class Viewer {
  map: Int32Array = new Int32Array(0);
  /** The sequence of each lane. */
  lanes = new Map<number, string>();

  take(snapshot: EngineSnapshot): void {
    this.map = applyChange(this.map, snapshot);
    const lanes = new Map(snapshot.running.map(({ lane, requestId }) => [lane, requestId]));
    expect(lanes.size).toBe(snapshot.running.length);
    for (const [lane, id] of this.lanes) {
      const sequence = snapshot.running.find(({ requestId }) => requestId === id);
      if (sequence !== undefined) expect(sequence.lane, `${id} keeps its lane`).toBe(lane);
    }
    this.lanes = lanes;
    for (const { sequences } of snapshot.timeline)
      expect(new Set(sequences.map(([lane]) => lane)).size).toBe(sequences.length);
  }

  check({ scheduler }: SteppedEngine): void {
    const { pool } = scheduler.tables;
    const uncommitted = new Set(pool.blocksOf('uncommitted'));
    const empty = new Set(pool.blocksOf('empty'));
    for (const [block, state] of this.map.entries()) {
      const holders = scheduler.running.filter(({ blocks }) => blocks.includes(block));
      const [holder] = holders;
      if (holders.length > 1) expect(state).toBe(3);
      else if (holder !== undefined) expect(this.lanes.get(state - 4), `block ${block}`).toBe(holder.id);
      else expect(state, `block ${block}`).toBe(uncommitted.has(block) ? 0 : empty.has(block) ? 1 : 2);
    }
  }
}

async function run({
  blockCount,
  stateSlots,
  snapshotEvery,
  commands,
}: typeof scenario extends fc.Arbitrary<infer One> ? One : never) {
  const engine = new SteppedEngine({ blockCount, stateSlots, budget: { kind: 'fixed', maxStepTokens: 96 } });
  const viewer = new Viewer();
  const seen = { steps: 0, generated: 0 };
  const snapshot = () => {
    const view = engine.engine.snapshot(engine.nowMs);
    viewer.take(view);
    viewer.check(engine);
    seen.steps += view.steps;
    seen.generated += view.generatedTokens;
    expect(view.waiting.length).toBe(engine.scheduler.waitingCount);
    expect(view.queues.reduce((sum, { waiting }) => sum + waiting, 0)).toBe(engine.scheduler.waitingCount);
  };
  snapshot();
  const step = async () => {
    // Also in the middle of a step.
    await engine.step(engine.steps % 3 === 0 ? snapshot : undefined);
    if (engine.steps % snapshotEvery === 0) snapshot();
  };
  for (const each of commands) {
    if (each.kind === 'submit') {
      const { seed, length, newTokens, choices, ...rest } = each;
      if (Math.ceil((length + newTokens) / 32) > blockCount) continue;
      for (let choice = 0; choice < choices; choice++) {
        engine.submit({ ...rest, prompt: prompt(length, seed), newTokens, choice });
      }
    } else if (each.kind === 'step') {
      for (let i = 0; i < each.count; i++) await step();
    } else if (each.kind === 'cancel') {
      const sequence = engine.sequences[each.which % Math.max(1, engine.sequences.length)];
      if (sequence !== undefined) engine.cancel(sequence);
    } else if (each.kind === 'preempt') {
      const { running } = engine.scheduler;
      const sequence = running[each.which % Math.max(1, running.length)];
      if (sequence !== undefined) engine.scheduler.preempt(sequence);
    } else engine.engine.allow(each.blocks);
  }
  engine.engine.allow(blockCount);
  for (let i = 0; engine.scheduler.running.length + engine.scheduler.waitingCount > 0; i++) {
    if (i === 5000) throw new Error('it does not end');
    await step();
  }
  snapshot();
  const { steps, generatedTokens } = engine.engine.stats(engine.nowMs);
  expect(seen).toEqual({ steps, generated: generatedTokens });
}

describe('snapshots of an engine', () => {
  it('give the true map of blocks, each of them, under random traffic', async () => {
    await fc.assert(fc.asyncProperty(scenario, run), { numRuns: cases(300, 0.4) });
  }, 120_000);

  it('begin anew after they ended', async () => {
    const engine = new SteppedEngine({ blockCount: 24, budget: { kind: 'fixed', maxStepTokens: 96 } });
    engine.submit({ prompt: prompt(70), newTokens: 40, ignoreEnd: true });
    await engine.step();
    expect(engine.engine.snapshot(0)).toMatchObject({ whole: true, steps: 0, timeline: [] });
    await engine.step();
    expect(engine.engine.snapshot(0)).toMatchObject({ whole: false, steps: 1, generatedTokens: 1 });
    engine.engine.endSnapshots();
    await engine.step();
    const viewer = new Viewer();
    viewer.take(engine.engine.snapshot(0));
    viewer.check(engine);
  });

  it('say why each of those that wait does', async () => {
    const engine = new SteppedEngine({ blockCount: 8, budget: { kind: 'fixed', maxStepTokens: 64 } });
    const reasons = () =>
      Object.fromEntries(
        engine.engine.snapshot(engine.nowMs).waiting.map(({ requestId, why }) => [requestId, why]),
      );
    const ask = (seed: number) =>
      engine.submit({ prompt: prompt(100, seed), newTokens: 60, ignoreEnd: true });
    const [first] = [ask(1), ask(1)];
    await engine.step();
    expect(reasons()).toEqual({ s1: 'prefix' });
    engine.cancel(engine.sequences[1] as never);
    [ask(2), ask(3)];
    await engine.step();
    await engine.step();
    expect(reasons()).toEqual({ s2: 'blocks', s3: 'queue' });
    engine.scheduler.preempt(first as never);
    expect(reasons()).toMatchObject({ s0: 'preempted' });
  });

  it('are bounded, however many steps nobody asks for and however many wait', async () => {
    const engine = new SteppedEngine({ blockCount: 64, budget: { kind: 'fixed', maxStepTokens: 64 } });
    engine.engine.snapshot(0);
    engine.submit({ prompt: prompt(5), newTokens: 300, ignoreEnd: true });
    for (let i = 0; i < 200; i++) await engine.step();
    for (let i = 0; i < 200; i++) engine.submit({ prompt: prompt(5, 2), newTokens: 1, priority: 2 });
    const view = engine.engine.snapshot(0);
    expect(view).toMatchObject({ steps: 200, generatedTokens: 200 });
    expect(view.timeline.map(({ step }) => step)).toEqual(Array.from({ length: 64 }, (_, i) => 137 + i));
    expect(view.waiting.length).toBe(64);
    expect(view.queues[2]?.waiting).toBe(200);
  });
});
