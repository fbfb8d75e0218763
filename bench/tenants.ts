// Tenants of many kinds on the real scheduler, with a clock that advances by what steps cost: how the work is shared, and how
// long requests wait for admission. Deterministic.

import { Scheduler, type SchedulerOptions } from '#src/engine/scheduler/scheduler.ts';
import { type Priority, Sequence } from '#src/engine/scheduler/sequence.ts';
import {
  attendedTokens,
  type StepItem,
  type StepLoad,
  type StepPlan,
} from '#src/engine/scheduler/step-plan.ts';

export interface Tenant {
  readonly name: string;
  readonly promptTokens: number;
  readonly answerTokens: number;
  readonly concurrency?: number;
  readonly burst?: { readonly requests: number; readonly everyMs: number };
  /** Each request continues the one before it, which is cached. */
  readonly conversation?: boolean;
  readonly priority?: Priority;
}

interface TenantResult {
  readonly name: string;
  /** Milliseconds of steps, each divided among the sequences it computed. */
  readonly work: number;
  readonly promptTokens: number;
  readonly answerTokens: number;
  readonly finished: number;
  /** Between a request's arrival and the step that admitted it. */
  readonly stepsWaited: readonly number[];
  readonly preemptions: number;
}

interface SimulationOptions extends SchedulerOptions {
  readonly warmUpMs: number;
  readonly measuredMs: number;
}

interface Open {
  readonly tenant: number;
  readonly arrivedAtStep: number;
}

interface Tally {
  work: number;
  promptTokens: number;
  answerTokens: number;
  finished: number;
  preemptions: number;
  readonly stepsWaited: number[];
}

export const demanding: readonly Tenant[] = [
  { name: 'long prompts, short answers', promptTokens: 2000, answerTokens: 10, concurrency: 8 },
  { name: 'short prompts, long answers', promptTokens: 20, answerTokens: 400, concurrency: 16 },
  { name: 'chats', promptTokens: 300, answerTokens: 120, concurrency: 12 },
  { name: 'flood', promptTokens: 60, answerTokens: 20, concurrency: 400 },
  { name: 'bursts', promptTokens: 200, answerTokens: 60, burst: { requests: 120, everyMs: 60_000 } },
  { name: 'embeddings', promptTokens: 400, answerTokens: 1, concurrency: 64 },
  { name: 'batch', promptTokens: 500, answerTokens: 80, concurrency: 1000 },
  { name: 'conversations', promptTokens: 150, answerTokens: 100, concurrency: 16, conversation: true },
  { name: 'huge prompts', promptTokens: 4000, answerTokens: 40, concurrency: 3 },
  { name: 'classification', promptTokens: 900, answerTokens: 2, concurrency: 24 },
];

export const modest: readonly Tenant[] = [
  { name: 'single requests', promptTokens: 100, answerTokens: 20, burst: { requests: 1, everyMs: 7_000 } },
  { name: 'rare long ones', promptTokens: 1500, answerTokens: 30, burst: { requests: 1, everyMs: 31_000 } },
];

export const machine = {
  blockCount: 2500,
  maxBatchSize: 24,
  budget: { kind: 'adaptive', targetStepMs: 200, maxStepTokens: 1024 },
  warmUpMs: 120_000,
  measuredMs: 600_000,
} as const;

const FIXED_MS = 20;
const TOKEN_MS = 0.5;
const ATTENDED_MS = 0.0005;
/** Beyond this length a new conversation begins. */
const LONGEST_CONVERSATION = 3000;

function simulatedStepMs({ tokens, attended }: StepLoad): number {
  return tokens === 0 ? 1 : FIXED_MS + TOKEN_MS * tokens + ATTENDED_MS * attended;
}

/** 1 where all have the same, 1/n where one has everything. */
export function jainIndex(values: readonly number[]): number {
  const sum = values.reduce((total, value) => total + value, 0);
  const squares = values.reduce((total, value) => total + value * value, 0);
  return (sum * sum) / (values.length * squares);
}

export function simulateTenants(tenants: readonly Tenant[], options: SimulationOptions): TenantResult[] {
  return new Simulation(tenants, options).run(options.warmUpMs, options.warmUpMs + options.measuredMs);
}

class Simulation {
  readonly #tenants: readonly Tenant[];
  readonly #scheduler: Scheduler;
  readonly #open = new Map<Sequence, Open>();
  readonly #openOf: number[];
  readonly #bursts: number[];
  readonly #histories: (Int32Array | undefined)[];
  #tallies: Tally[];
  #nowMs = 0;
  #steps = 0;
  #requests = 0;
  #random = 1;

  constructor(tenants: readonly Tenant[], options: SchedulerOptions) {
    this.#tenants = tenants;
    this.#scheduler = new Scheduler(options);
    this.#openOf = tenants.map(() => 0);
    this.#bursts = tenants.map(() => 0);
    this.#histories = tenants.map(() => undefined);
    this.#tallies = tenants.map(newTally);
  }

  run(fromMs: number, toMs: number): TenantResult[] {
    while (this.#nowMs < fromMs) this.#step();
    this.#tallies = this.#tenants.map(newTally);
    while (this.#nowMs < toMs) this.#step();
    return this.#tenants.map(({ name }, i) => ({ name, ...(this.#tallies[i] as Tally) }));
  }

  #step(): void {
    for (const [i, tenant] of this.#tenants.entries()) this.#arrive(i, tenant);
    const plan = this.#scheduler.plan(this.#nowMs);
    this.#steps += 1;
    for (const sequence of plan.admitted) this.#admitted(sequence);
    for (const sequence of plan.preempted) this.#tally(sequence).preemptions += 1;
    const stepMs = simulatedStepMs(plan.load);
    this.#nowMs += stepMs;
    const sampled = plan.items.filter(({ samples }) => samples).map(() => [this.#token()]);
    this.#scheduler.commit(plan, sampled, stepMs);
    for (const item of plan.items) this.#charge(plan, item);
    for (const { sequence } of plan.items) if (sequence.length === sequence.maxTokens) this.#finish(sequence);
  }

  #arrive(i: number, { concurrency = 0, burst }: Tenant): void {
    while ((this.#openOf[i] as number) < concurrency) this.#submit(i);
    if (burst === undefined || this.#nowMs < (this.#bursts[i] as number)) return;
    this.#bursts[i] = this.#nowMs + burst.everyMs;
    for (let n = 0; n < burst.requests; n++) this.#submit(i);
  }

  #submit(i: number): void {
    const {
      promptTokens,
      answerTokens,
      name,
      priority = 1,
      conversation = false,
    } = this.#tenants[i] as Tenant;
    const history = conversation ? this.#histories[i] : undefined;
    this.#histories[i] = undefined;
    const tokens = new Int32Array((history?.length ?? 0) + promptTokens);
    if (history !== undefined) tokens.set(history);
    for (let at = history?.length ?? 0; at < tokens.length; at++) tokens[at] = this.#token();
    const sequence = new Sequence({
      id: `${this.#requests++}`,
      tokens,
      maxTokens: tokens.length + answerTokens,
      priority,
      enqueuedMs: this.#nowMs,
      account: name,
      salt: name,
    });
    const result = this.#scheduler.add(sequence);
    if (!result.accepted) throw new Error(result.reason);
    this.#open.set(sequence, { tenant: i, arrivedAtStep: this.#steps });
    this.#openOf[i] = (this.#openOf[i] as number) + 1;
  }

  #admitted(sequence: Sequence): void {
    if (sequence.preemptions > 0) return;
    const { arrivedAtStep } = this.#open.get(sequence) as Open;
    this.#tally(sequence).stepsWaited.push(this.#steps - 1 - arrivedAtStep);
  }

  #charge({ load }: StepPlan, { sequence, start, count, samples }: StepItem): void {
    const tally = this.#tally(sequence);
    tally.work += FIXED_MS / load.sequences + TOKEN_MS * count + ATTENDED_MS * attendedTokens(start, count);
    tally.promptTokens += Math.max(0, Math.min(start + count, sequence.promptLength) - start);
    tally.answerTokens += Number(samples);
  }

  #finish(sequence: Sequence): void {
    const { tenant } = this.#open.get(sequence) as Open;
    this.#tally(sequence).finished += 1;
    this.#scheduler.finish(sequence);
    this.#open.delete(sequence);
    this.#openOf[tenant] = (this.#openOf[tenant] as number) - 1;
    if (sequence.length < LONGEST_CONVERSATION) this.#histories[tenant] = sequence.tokens.slice();
  }

  #tally(sequence: Sequence): Tally {
    return this.#tallies[(this.#open.get(sequence) as Open).tenant] as Tally;
  }

  #token(): number {
    this.#random = (Math.imul(this.#random, 1_664_525) + 1_013_904_223) | 0;
    return this.#random >>> 16;
  }
}

function newTally(): Tally {
  return { work: 0, promptTokens: 0, answerTokens: 0, finished: 0, preemptions: 0, stepsWaited: [] };
}
