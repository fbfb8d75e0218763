// Plays a load on the real scheduler with steps of made-up length, and holds what was foretold against what came.

import { describe, expect, it } from 'vitest';
import { Scheduler } from './scheduler/scheduler.ts';
import { Sequence } from './scheduler/sequence.ts';
import { WaitEstimates } from './wait-estimates.ts';

interface Load {
  readonly lanes: number;
  readonly blocks: number;
  readonly requests: number;
  readonly meanArrivalMs: number;
  readonly prompt: () => number;
  readonly answer: () => number;
  readonly accounts: number;
}

/** Requests before which little was measured. */
const WARM_UP = 20;

function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state + 0.5) / 2 ** 32;
  };
}

/** What was foretold first of each that waited for more than a second, as a part of what came. */
function ratiosOf(load: Load, random: () => number): number[] {
  const scheduler = new Scheduler({
    blockCount: load.blocks,
    maxBatchSize: load.lanes,
    budget: { kind: 'fixed', maxStepTokens: 256 },
  });
  const estimates = new WaitEstimates();
  const answers = new Map<Sequence, number>();
  const foretold = new Map<string, { readonly atMs: number; readonly waitMs: number }>();
  const ratios: number[] = [];
  let nowMs = 0;
  let arrivalMs = 0;
  let toldMs = 0;
  for (let submitted = 0, ended = 0; ended < load.requests; ) {
    while (submitted < load.requests && arrivalMs <= nowMs) {
      const length = load.prompt();
      const answer = load.answer();
      const sequence = new Sequence({
        id: String(submitted),
        tokens: Int32Array.from({ length }, () => Math.floor(1e6 * random())),
        maxTokens: length + 2048,
        priority: 1,
        enqueuedMs: arrivalMs,
        account: String(submitted % load.accounts),
      });
      submitted++;
      answers.set(sequence, answer);
      expect(scheduler.add(sequence).accepted).toBe(true);
      const meanMs = submitted < WARM_UP ? 200 : load.meanArrivalMs;
      arrivalMs -= meanMs * Math.log(random());
    }
    if (nowMs - toldMs >= 500) {
      toldMs = nowMs;
      for (const { id, waitMs } of estimates.places(scheduler, nowMs)) {
        if (!foretold.has(id)) foretold.set(id, { atMs: nowMs, waitMs });
      }
    }
    const plan = scheduler.plan(nowMs);
    if (plan.items.length === 0) {
      scheduler.commit(plan, [], 0);
      estimates.rested();
      nowMs = Math.max(nowMs, arrivalMs);
      continue;
    }
    estimates.beginning(nowMs);
    const stepMs = (8 + 0.4 * plan.load.tokens) * (0.8 + 0.4 * random());
    const sampling = plan.items.filter(({ samples }) => samples).map(({ sequence }) => sequence);
    scheduler.commit(
      plan,
      sampling.map(() => [1]),
      stepMs,
    );
    nowMs += stepMs;
    estimates.stepped(plan, sampling.length, scheduler, nowMs);
    for (const sequence of sampling) {
      const given = sequence.length - sequence.promptLength;
      if (given === 1) estimates.begun(sequence.id, nowMs);
      const told = given === 1 ? foretold.get(sequence.id) : undefined;
      if (told !== undefined && nowMs - told.atMs > 1000 && Number(sequence.id) >= WARM_UP) {
        ratios.push(told.waitMs / (nowMs - told.atMs));
      }
      if (given < (answers.get(sequence) as number)) continue;
      estimates.answered(given);
      scheduler.finish(sequence);
      ended++;
    }
  }
  return ratios;
}

const random = randomOf(11);
/** From a tenth to ten times the mean, mostly about it. */
const around = (mean: number, spread: number) => () =>
  Math.max(2, Math.round(mean * Math.exp(spread * (random() + random() + random() - 1.5))));

const loads: readonly (readonly [string, Load])[] = [
  [
    'too few lanes',
    {
      lanes: 8,
      blocks: 4096,
      requests: 300,
      meanArrivalMs: 100,
      prompt: around(60, 1),
      answer: around(80, 1),
      accounts: 1,
    },
  ],
  [
    'long prompts',
    {
      lanes: 64,
      blocks: 4096,
      requests: 200,
      meanArrivalMs: 300,
      prompt: around(900, 1.5),
      answer: around(30, 1),
      accounts: 3,
    },
  ],
  [
    'too few blocks',
    {
      lanes: 64,
      blocks: 120,
      requests: 300,
      meanArrivalMs: 400,
      prompt: around(300, 1),
      answer: around(120, 1),
      accounts: 5,
    },
  ],
  [
    'a burst',
    {
      lanes: 16,
      blocks: 4096,
      requests: 300,
      meanArrivalMs: 20,
      prompt: around(100, 1.5),
      answer: around(100, 1.5),
      accounts: 10,
    },
  ],
];

/** Where accounts with prompts of very different lengths take turns by work, a later arrival may overtake. */
const LEAST_SHARE = 0.88;
const ROUNDS = 6;

describe('the expected wait', () => {
  const shares = loads.map(([name, load]) => {
    const ratios = Array.from({ length: ROUNDS }, () => ratiosOf(load, random)).flat();
    return { name, waits: ratios.length, right: ratios.filter((ratio) => ratio >= 0.5 && ratio <= 2).length };
  });
  const sum = (key: 'waits' | 'right') => shares.reduce((total, each) => total + each[key], 0);

  it.each(shares)('is true within a factor of two with $name', ({ waits, right }) => {
    expect(waits).toBeGreaterThan(300);
    expect(right / waits).toBeGreaterThanOrEqual(LEAST_SHARE);
  });

  it('is so in nine of ten cases', () => {
    expect(sum('right') / sum('waits')).toBeGreaterThanOrEqual(0.9);
  });
});
