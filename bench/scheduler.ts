// `npm run bench -- scheduler`: how long the scheduler itself takes: planning and committing a step with 64 running and 10,000 waiting
// sequences, with a small and a very large pool. Compute is left out. Ends in one JSON line.

import { BLOCK_TOKENS } from '#src/compute/backend.ts';
import { Scheduler } from '#src/engine/scheduler/scheduler.ts';
import { type Priority, Sequence } from '#src/engine/scheduler/sequence.ts';
import type { StepPlan } from '#src/engine/scheduler/step-plan.ts';
import { print, report } from './harness.ts';

const RUNNING = 64;
const WAITING = 10_000;
const POOL_BLOCKS = [1_000, 1_000_000];
const WARM_UP_STEPS = 2_000;
const STEPS = 10_000;
const PROMPT_TOKENS = 6 * BLOCK_TOKENS;
const NEW_TOKENS = 6 * BLOCK_TOKENS;

/** Keeps the scheduler loaded: a finished request is replaced by a new one at the end of the queue. */
class Load {
  readonly scheduler: Scheduler;
  #count = 0;
  #random = 1;

  constructor(blockCount: number) {
    this.scheduler = new Scheduler({
      blockCount,
      maxBatchSize: RUNNING,
      budget: { kind: 'adaptive', targetStepMs: 1000, maxStepTokens: 512 },
    });
    for (let i = 0; i < RUNNING + WAITING; i++) this.add();
  }

  add(): void {
    const tokens = Int32Array.from({ length: PROMPT_TOKENS }, () => this.token());
    // Four in five prompts begin with one of eight system prompts, so that admission also meets shared prefixes.
    if (this.#count % 5 !== 0) tokens.fill(this.#count % 8, 0, 2 * BLOCK_TOKENS);
    const sequence = new Sequence({
      id: `${this.#count}`,
      tokens,
      maxTokens: PROMPT_TOKENS + NEW_TOKENS - (this.token() % BLOCK_TOKENS),
      priority: (this.#count % 3) as Priority,
      enqueuedMs: this.#count,
    });
    this.#count += 1;
    if (!this.scheduler.add(sequence).accepted) throw new Error('the pool is too small for one request');
  }

  token(): number {
    this.#random = (Math.imul(this.#random, 1_664_525) + 1_013_904_223) | 0;
    return this.#random >>> 16;
  }

  sample(plan: StepPlan): number[][] {
    return plan.items.filter(({ samples }) => samples).map(() => [this.token()]);
  }

  replaceEnded(): void {
    for (const sequence of this.scheduler.running.filter(({ length, maxTokens }) => length === maxTokens)) {
      this.scheduler.finish(sequence);
      this.add();
    }
  }
}

function measure(blockCount: number): Record<string, number> {
  const load = new Load(blockCount);
  const microseconds: number[] = [];
  for (let step = 0; step < WARM_UP_STEPS + STEPS; step++) {
    const planStart = performance.now();
    const plan = load.scheduler.plan(50 * step);
    const planMs = performance.now() - planStart;
    const tokens = load.sample(plan);
    const commitStart = performance.now();
    load.scheduler.commit(plan, tokens, 50);
    const commitMs = performance.now() - commitStart;
    load.replaceEnded();
    if (step >= WARM_UP_STEPS) microseconds.push(1000 * (planMs + commitMs));
  }
  const { counters } = load.scheduler.stats(0);
  microseconds.sort((a, b) => a - b);
  const quantile = (share: number) =>
    Math.round(10 * (microseconds[Math.floor(share * (microseconds.length - 1))] as number)) / 10;
  return {
    blocks: blockCount,
    running: load.scheduler.running.length,
    waiting: load.scheduler.waitingCount,
    admissions: counters.admissions,
    preemptions: counters.preemptions,
    prefixHitTokens: counters.prefixHitTokens,
    medianUs: quantile(0.5),
    p99Us: quantile(0.99),
    maxUs: quantile(1),
  };
}

const results = POOL_BLOCKS.map(measure);
for (const result of results) {
  print(
    `${result.blocks} blocks: median ${result.medianUs} µs, p99 ${result.p99Us} µs, max ${result.maxUs} µs per step` +
      ` (${result.running} running, ${result.waiting} waiting, ${result.admissions} admissions)`,
  );
}
report('scheduler', { steps: STEPS, results });
