// Random traffic over random pools: whatever happens, the invariants hold after every step, every sequence
// ends, and every output is the one of a lone run.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { blocksFor } from '../../src/engine/cache/block-tables.ts';
import { invariant } from '../../src/engine/cache/integrity.ts';
import type { AnswerRequest } from '../../src/engine/request.ts';
import { RETRY_MS } from '../../src/engine/resident-blocks.ts';
import { checkIntegrity } from '../../src/engine/scheduler/integrity.ts';
import type { Priority, Sequence } from '../../src/engine/scheduler/sequence.ts';
import type { BudgetOptions } from '../../src/engine/scheduler/token-budget.ts';
import type { Pooling } from '../../src/model/pooling.ts';
import { cases } from '../support/thorough.ts';
import { DeviceMemory } from './hash-backend.ts';
import { type Character, randomDrafter } from './random-drafter.ts';
import { SteppedEngine } from './stepped-engine.ts';
import { UncertainDisk } from './uncertain-disk.ts';

interface Submit {
  readonly kind: 'submit';
  /** Prompts of one family have a common beginning. */
  readonly family: number;
  readonly shared: number;
  readonly own: number;
  readonly newTokens: number;
  readonly priority: Priority;
  readonly salt: string;
  readonly account: string;
  /** N answers to the same prompt are asked for together. */
  readonly choices: number;
  /** Embedded instead of answered. */
  readonly pooling: Pooling | undefined;
}

type Command =
  | Submit
  | { readonly kind: 'cancel'; readonly which: number; readonly duringStep: boolean }
  | { readonly kind: 'preempt'; readonly which: number }
  | { readonly kind: 'followUp'; readonly which: number; readonly own: number; readonly newTokens: number }
  | { readonly kind: 'allow'; readonly share: number; readonly duringStep: boolean }
  | { readonly kind: 'device'; readonly share: number }
  | { readonly kind: 'steps'; readonly count: number }
  | { readonly kind: 'wait'; readonly ms: number };

const submit: fc.Arbitrary<Submit> = fc.record({
  kind: fc.constant('submit' as const),
  family: fc.integer({ min: 1, max: 3 }),
  shared: fc.oneof(fc.integer({ min: 0, max: 100 }), fc.constantFrom(32, 64, 96)),
  own: fc.integer({ min: 0, max: 40 }),
  newTokens: fc.integer({ min: 1, max: 110 }),
  priority: fc.constantFrom<Priority>(0, 1, 2),
  salt: fc.constantFrom('', '', '', 'a', 'b'),
  account: fc.constantFrom('', 'x', 'y', 'z'),
  choices: fc.oneof(fc.constant(1), fc.integer({ min: 2, max: 5 })),
  pooling: fc.constantFrom<(Pooling | undefined)[]>(undefined, undefined, undefined, 'mean', 'last', 'cls'),
});

const which = fc.nat({ max: 1000 });

const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 6, arbitrary: submit },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('cancel' as const), which, duringStep: fc.boolean() }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('preempt' as const), which }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('followUp' as const),
      which,
      own: fc.integer({ min: 1, max: 40 }),
      newTokens: fc.integer({ min: 1, max: 30 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('allow' as const),
      share: fc.double({ min: 0, max: 1, noNaN: true }),
      duringStep: fc.boolean(),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({ kind: fc.constant('steps' as const), count: fc.integer({ min: 1, max: 12 }) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 30_000 }) }),
  },
);

/** A device that has memory for a part of the blocks, as long as others use the rest. */
const deviceCommand: fc.Arbitrary<Command> = fc.oneof(
  { weight: 6, arbitrary: command },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('device' as const),
      share: fc.double({ min: 0, max: 1, noNaN: true }),
    }),
  },
);

const budget: fc.Arbitrary<BudgetOptions> = fc.oneof(
  fc.record({ kind: fc.constant('fixed' as const), maxStepTokens: fc.integer({ min: 1, max: 200 }) }),
  fc.record({
    kind: fc.constant('adaptive' as const),
    targetStepMs: fc.integer({ min: 1, max: 200 }),
    maxStepTokens: fc.integer({ min: 1, max: 300 }),
  }),
);

const scenario = fc.record({
  blockCount: fc.integer({ min: 6, max: 24 }),
  budget,
  watermark: fc.constantFrom(0.85, 1),
  maxBatchSize: fc.oneof(fc.constant(64), fc.integer({ min: 1, max: 6 })),
  stateSlots: fc.constantFrom(undefined, undefined, 2, 3, 5, 12),
  drafter: fc.constantFrom<Character>('silent', 'text', 'seer', 'seer', 'liar', 'vandal'),
  /** What accounts may hold of the blocks: x and y, where they are limited. */
  kvShares: fc.record({
    x: fc.constantFrom(undefined, 0.2, 0.5, 0.9),
    y: fc.constantFrom(undefined, undefined, 0.1, 0.6),
  }),
  /** Whether the backend prepares steps while others are computed. */
  prepares: fc.boolean(),
  /** Where blocks that leave memory are kept, and how long it is believed to take. */
  tiers: fc.oneof(
    { weight: 2, arbitrary: fc.constant(undefined) },
    {
      weight: 1,
      arbitrary: fc.record({
        hostBlocks: fc.constantFrom(0, 3, 8, 1000),
        disk: fc.option(
          fc.record({
            seed: fc.integer({ min: 1, max: 1e6 }),
            loses: fc.constantFrom(0, 0, 10, 60),
            refuses: fc.constantFrom(0, 10, 60),
            hangs: fc.constantFrom(0, 0, 10, 50),
          }),
          { nil: undefined },
        ),
      }),
    },
  ),
  foresight: fc.double({ min: 0.3, max: 1, noNaN: true }),
  commands: fc.array(command, { minLength: 1, maxLength: 30, size: 'max' }),
});

type Scenario = (typeof scenario extends fc.Arbitrary<infer T> ? T : never) & {
  readonly wholeTexts?: boolean;
  readonly device?: DeviceMemory;
};

/** What the runs have met, over all of them. */
const seen = {
  preemptions: 0,
  hits: 0,
  rememberedHits: 0,
  deferrals: 0,
  released: 0,
  failures: 0,
  resumedVectors: 0,
  accepted: 0,
  rejected: 0,
  recurrentAccepted: 0,
  prepared: 0,
  loads: 0,
  failedLoads: 0,
  loadedBlocks: 0,
};

function promptOf({ family, shared, own }: Submit, unique: number): number[] {
  const common = Array.from({ length: shared }, (_, i) => 1 + ((i * family + family) % 37));
  const tail = Array.from({ length: own }, (_, i) => 1 + ((i + unique) % 39));
  return shared + own === 0 ? [family] : [...common, ...tail];
}

/** One step, with what a plan must keep besides the engine's own checks. */
async function checkedStep(
  engine: SteppedEngine,
  { budget, maxBatchSize, wholeTexts = false, device }: Scenario,
  during?: () => void,
): Promise<void> {
  const { scheduler } = engine;
  const decoding = scheduler.running.filter(({ remaining }) => remaining === 1);
  const granted = scheduler.grantedBlocks;
  const { plan, grantedBlocks } = await engine.plannedStep(during);
  const limit = Math.max(granted, grantedBlocks);
  const planned = new Set(plan.items.map(({ sequence }) => sequence));
  const isLone = wholeTexts && plan.items.length === 1;
  invariant(plan.load.tokens <= budget.maxStepTokens || isLone, 'the step keeps to its token budget');
  const isWhole = plan.items.every(({ start, count, sequence }) => start === 0 && count === sequence.length);
  invariant(isWhole || !wholeTexts, 'texts that are computed whole are not cut');
  invariant(scheduler.tables.prefixes.size === 0 || !wholeTexts, 'nothing is kept of them');
  invariant(scheduler.running.length <= maxBatchSize, 'the batch keeps to its limit');
  invariant(
    plan.admitted.every((sequence) => !plan.preempted.includes(sequence)),
    'nobody that was preempted comes straight back',
  );
  invariant(planned.size === plan.items.length, 'a sequence has one item');
  const written = new Set(plan.items.flatMap(({ sequence }) => sequence.blocks));
  invariant(written.size <= limit || during !== undefined, 'the step keeps to its blocks');
  invariant(
    device === undefined || device.capacity <= limit || during !== undefined,
    'a device keeps no memory that is not allowed',
  );
  for (const sequence of decoding.filter(({ state }) => state === 'running')) {
    invariant(planned.has(sequence) || plan.preempted.includes(sequence), 'no decode waits for prefill');
  }
  invariant(
    plan.admitted.every((sequence) => planned.has(sequence)),
    'who is admitted computes at once',
  );
}

/**
 * Admission keeps the order: no one left waiting at plan time, unless deferred, precedes one admitted of the same
 * account and tier, or any that is more than a minute younger, unless its account had a turn in that time.
 */
function watchOrder(engine: SteppedEngine): void {
  const { scheduler } = engine;
  const plan = scheduler.plan.bind(scheduler);
  const turns = new Map<string, number>();
  const flow = ({ priority, account }: Sequence) => `${priority} ${account}`;
  const deferredNow = () => [...scheduler.deferred()].map(({ sequence }) => sequence);
  scheduler.plan = (nowMs, propose) => {
    // A sequence that is deferred until the plan itself preempts what it waited for is next in the following plan.
    const before = deferredNow();
    const planned = plan(nowMs, propose);
    for (const sequence of planned.admitted) turns.set(flow(sequence), sequence.priority + nowMs / 10_000);
    const deferred = new Set(deferredNow());
    for (const sequence of scheduler.waiting()) {
      const isDeferred = deferred.has(sequence) || before.includes(sequence);
      if (isDeferred || planned.preempted.includes(sequence)) continue;
      const key = Math.max(sequence.key, turns.get(flow(sequence)) ?? sequence.key);
      for (const admitted of planned.admitted) {
        const isBeside = flow(admitted) === flow(sequence);
        const earliest = isBeside ? admitted.key : admitted.key - 6 - 1e-9;
        invariant((isBeside ? sequence.key : key) >= earliest, 'no one overtakes in the queue');
      }
    }
    seen.deferrals += deferred.size;
    return planned;
  };
}

/** Of requests that ask for none: where all texts are embedded, they are, too. */
const poolingOf = ({ wholeTexts }: Scenario): Pooling | undefined => (wholeTexts ? 'mean' : undefined);

async function execute(
  engine: SteppedEngine,
  setting: Scenario,
  each: Command,
  unique: number,
): Promise<void> {
  const all = engine.sequences;
  const pick = (which: number, from: readonly Sequence[]) => from[which % Math.max(1, from.length)];
  switch (each.kind) {
    case 'submit': {
      const prompt = promptOf(each, unique);
      const kvShare = setting.kvShares[each.account as 'x' | 'y'];
      const most = Math.max(1, Math.floor((kvShare ?? 1) * setting.blockCount));
      if (blocksFor(prompt.length + each.newTokens - 1) > most) return;
      const pooling = each.pooling ?? poolingOf(setting);
      for (let choice = 0; choice < each.choices; choice++) {
        engine.submit({ ...each, kvShare, prompt, choice, pooling });
      }
      return;
    }
    case 'followUp': {
      const before = pick(each.which, all);
      if (before === undefined) return;
      const prompt = [
        ...before.tokens,
        ...Array.from({ length: each.own }, (_, i) => 1 + ((i + unique) % 39)),
      ];
      if (blocksFor(prompt.length + each.newTokens - 1) > setting.blockCount) return;
      const { priority, salt } = before;
      engine.submit({ prompt, newTokens: each.newTokens, priority, salt, pooling: poolingOf(setting) });
      return;
    }
    case 'cancel': {
      const sequence = pick(each.which, all);
      if (sequence === undefined) return;
      if (each.duringStep) await checkedStep(engine, setting, () => engine.cancel(sequence));
      else engine.cancel(sequence);
      return;
    }
    case 'preempt': {
      const sequence = pick(each.which, engine.scheduler.running);
      // Plans alone preempt.
      if (sequence !== undefined && !engine.isUnderWay) engine.scheduler.preempt(sequence);
      return;
    }
    case 'allow': {
      const allow = () => engine.engine.allow(Math.round(each.share * setting.blockCount));
      if (each.duringStep) await checkedStep(engine, setting, allow);
      else allow();
      return;
    }
    case 'device':
      if (setting.device) setting.device.available = Math.round(each.share * setting.blockCount);
      return;
    case 'steps':
      for (let i = 0; i < each.count; i++) await checkedStep(engine, setting);
      return;
    case 'wait':
      engine.nowMs += each.ms;
  }
}

async function run(setting: Scenario): Promise<void> {
  const { drafter, foresight } = setting;
  const { tiers, ...scheduling } = setting;
  const options = {
    ...scheduling,
    ...(tiers && {
      hostBytes: 256 * tiers.hostBlocks,
      disk: tiers.disk && new UncertainDisk(tiers.disk),
    }),
    newDrafter: ({ prompt, choice = 0 }: AnswerRequest, tokens: Int32Array) =>
      randomDrafter(drafter, foresight, prompt, choice, tokens),
  };
  const engine = new SteppedEngine(options, setting.device);
  watchOrder(engine);
  for (const [unique, each] of setting.commands.entries()) {
    await execute(engine, setting, each, unique);
    checkIntegrity(engine.scheduler);
  }
  engine.engine.allow(setting.blockCount);
  if (setting.device) setting.device.available = setting.blockCount;
  engine.nowMs += RETRY_MS;
  await engine.drain();
  engine.checkOutputs();
  const { blocks, counters } = engine.scheduler.stats(engine.nowMs);
  expect(blocks.used).toBe(0);
  seen.preemptions += counters.preemptions;
  seen.hits += counters.prefixHitTokens;
  if (setting.stateSlots !== undefined) seen.rememberedHits += counters.prefixHitTokens;
  seen.released += engine.backend.released;
  seen.failures += engine.engine.stats(0).requests.error;
  const { accepted, rejected } = engine.draftTokens;
  seen.accepted += accepted;
  seen.rejected += rejected;
  if (setting.stateSlots !== undefined) seen.recurrentAccepted += accepted;
  const { loads = 0, failedLoads = 0, loadedBlocks = 0 } = engine.engine.stats(0).tiers ?? {};
  seen.loads += loads;
  seen.failedLoads += failedLoads;
  seen.loadedBlocks += loadedBlocks;
  seen.prepared += engine.backend.begun;
  seen.resumedVectors += engine.sequences.filter(
    ({ pooled, preemptions }) => pooled?.isComplete === true && preemptions > 0,
  ).length;
}

describe('the engine under random traffic', () => {
  it('keeps its invariants and every output, with a fixed seed', async () => {
    const numRuns = cases(1000, 0.1);
    await fc.assert(fc.asyncProperty(scenario, run), { numRuns, seed: 20 });
    const { resumedVectors, failedLoads, ...often } = seen;
    expect(failedLoads).toBeGreaterThan(numRuns / 100);
    for (const count of Object.values(often))
      expect(count, JSON.stringify(seen)).toBeGreaterThan(numRuns / 20);
    expect(resumedVectors).toBeGreaterThan(numRuns / 100);
  }, 300_000);

  it('keeps its invariants and every output, with a random seed', async () => {
    await fc.assert(fc.asyncProperty(scenario, run), { numRuns: cases(1000, 0.1) });
  }, 300_000);

  it('keeps them where texts are computed whole', async () => {
    const whole = (setting: Scenario) => run({ ...setting, wholeTexts: true, stateSlots: undefined });
    await fc.assert(fc.asyncProperty(scenario, whole), { numRuns: cases(300, 0.2) });
  }, 300_000);

  it('keeps them on a device that takes memory by need, gives it back, and has none at times', async () => {
    const numRuns = cases(1000, 0.12);
    const onDevice = fc.record({
      setting: scenario,
      commands: fc.array(deviceCommand, { minLength: 1, maxLength: 30, size: 'max' }),
      wholeTexts: fc.constantFrom(false, false, true),
      share: fc.double({ min: 0, max: 1, noNaN: true }),
    });
    let refusals = 0;
    const property = fc.asyncProperty(onDevice, async ({ setting, commands, wholeTexts, share }) => {
      const device = new DeviceMemory(Math.round(share * setting.blockCount));
      const { stateSlots } = setting;
      await run({
        ...setting,
        commands,
        device,
        wholeTexts,
        stateSlots: wholeTexts ? undefined : stateSlots,
      });
      refusals += device.refusals;
    });
    await fc.assert(property, { numRuns, seed: 21 });
    expect(refusals).toBeGreaterThan(numRuns / 2);
  }, 300_000);

  it('serves LOW under a flood of HIGH in the time that aging promises', async () => {
    const flood = fc.record({
      blockCount: fc.integer({ min: 8, max: 30 }),
      maxBatchSize: fc.integer({ min: 1, max: 6 }),
      everySteps: fc.integer({ min: 1, max: 12 }),
      newTokens: fc.integer({ min: 5, max: 60 }),
      stepMs: fc.integer({ min: 400, max: 2000 }),
    });
    // LOW is preempted there, and must not wait anew.
    const preempted = { blockCount: 12, maxBatchSize: 5, everySteps: 3, newTokens: 28, stepMs: 418 };
    await fc.assert(fc.asyncProperty(flood, floodWithHigh), { numRuns: 100, examples: [[preempted]] });
  }, 300_000);
});

interface Flood {
  readonly blockCount: number;
  readonly maxBatchSize: number;
  readonly everySteps: number;
  readonly newTokens: number;
  readonly stepMs: number;
}

/** While LOW waits, no HIGH that came more than 20 s after it may start; and LOW must end, flood or not. */
async function floodWithHigh({
  blockCount,
  maxBatchSize,
  everySteps,
  newTokens,
  stepMs,
}: Flood): Promise<void> {
  const engine = new SteppedEngine({
    blockCount,
    maxBatchSize,
    budget: { kind: 'fixed', maxStepTokens: 64 },
  });
  const prompt = (seed: number) => Array.from({ length: 40 }, (_, i) => 100 * seed + i);
  for (let seed = 1; seed <= maxBatchSize; seed++)
    engine.submit({ prompt: prompt(seed), newTokens, priority: 0 });
  const low = engine.submit({ prompt: prompt(0), newTokens, priority: 2 });
  for (let step = 0; low.state !== 'finished'; step++) {
    invariant(step < 20_000, 'LOW ends');
    if (step % everySteps === 0) engine.submit({ prompt: prompt(100 + step), newTokens, priority: 0 });
    const waits = low.state !== 'running';
    const { admitted } = await engine.step();
    const before = admitted.includes(low) ? admitted.slice(0, admitted.indexOf(low)) : admitted;
    for (const { enqueuedMs } of waits ? before : []) {
      invariant(enqueuedMs <= low.enqueuedMs + 20_000, 'LOW goes before younger HIGH');
    }
    engine.nowMs += stepMs;
  }
}
