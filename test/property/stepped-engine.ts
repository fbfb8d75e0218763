// The real engine over a backend of hashes, moved step by step with a clock of its own; every check after every step.

import type { BlockTier } from '../../src/block-store/block-tier.ts';
import { BLOCK_TOKENS } from '../../src/compute/backend.ts';
import { Engine, type EngineOptions } from '../../src/engine/engine.ts';
import type { FinishEvent } from '../../src/engine/request.ts';
import { checkIntegrity } from '../../src/engine/scheduler/integrity.ts';
import type { Scheduler, SchedulerOptions } from '../../src/engine/scheduler/scheduler.ts';
import type { Priority, Sequence } from '../../src/engine/scheduler/sequence.ts';
import type { StepLoad, StepPlan } from '../../src/engine/scheduler/step-plan.ts';
import type { StepReport } from '../../src/engine/step-report.ts';
import type { Pooling } from '../../src/model/pooling.ts';
import { validateSampling } from '../../src/sampling/parameters.ts';
import {
  answerAlone,
  type DeviceMemory,
  END_TOKEN,
  HashBackend,
  VOCABULARY,
  vectorAlone,
} from './hash-backend.ts';

export interface Request {
  readonly prompt: readonly number[];
  readonly newTokens: number;
  readonly priority?: Priority;
  readonly salt?: string;
  readonly account?: string;
  readonly kvShare?: number | undefined;
  readonly choice?: number;
  /** Goes on to the last of its new tokens whatever is sampled. */
  readonly ignoreEnd?: boolean;
  /** Embedded instead of answered. */
  readonly pooling?: Pooling | undefined;
}

/** `prepares`: whether its backend prepares steps while others are computed. */
type SteppedOptions = SchedulerOptions &
  Pick<EngineOptions, 'newDrafter' | 'speculation' | 'hostBytes'> & {
    readonly prepares?: boolean;
    /** Below the machine's memory. */
    readonly disk?: BlockTier | undefined;
  };

interface Planned {
  readonly plan: StepPlan;
  readonly grantedBlocks: number;
}

interface Asked {
  readonly request: Request;
  readonly sequence: Sequence;
  readonly tokens: number[];
  finish: FinishEvent | undefined;
}

/** Tokens that differ from those of any other seed from the first one on. */
export function prompt(length: number, seed = 1): number[] {
  return Array.from({ length }, (_, i) => 1000 * seed + i);
}

/** How long a step takes: fixed cost, per token, per attended token. */
export function stepMs({ tokens, attended }: StepLoad): number {
  return tokens === 0 ? 0 : 20 + 0.5 * tokens + 0.001 * attended;
}

export class SteppedEngine {
  readonly engine: Engine;
  readonly backend: HashBackend;
  nowMs = 0;
  steps = 0;
  lastReport: StepReport | undefined;
  readonly #asked = new Map<string, Asked>();
  readonly #saltOf: (string | undefined)[] = [];
  /** Those of the step that is made and, where it has begun already, of the next. */
  readonly #plans: Planned[] = [];
  #ids = 0;

  constructor({ prepares = false, disk, ...options }: SteppedOptions, memory?: DeviceMemory) {
    this.backend = new HashBackend(options.blockCount, options.stateSlots, memory, prepares);
    this.engine = new Engine(
      this.backend,
      {
        speculation: options.newDrafter !== undefined,
        ...options,
        ...(disk && { openDisk: async () => disk }),
        vocabSize: VOCABULARY,
        contextLength: 1 << 20,
        endIds: [END_TOKEN],
      },
      (report) => this.#hear(report),
      () => this.nowMs,
    );
    this.#watchPlans();
    if (options.hostBytes !== undefined) this.engine.identify('hashes', { model: 'hashes', adapters: [] });
  }

  get scheduler(): Scheduler {
    return this.engine.scheduler;
  }

  /** All that were ever submitted. */
  get sequences(): Sequence[] {
    return [...this.#asked.values()].map(({ sequence }) => sequence);
  }

  submit(given: Request): Sequence {
    const request = { ...given, prompt: given.prompt.map((token) => token % VOCABULARY) };
    const id = `s${this.#ids++}`;
    this.engine.submit({
      id,
      prompt: Int32Array.from(request.prompt),
      ...(request.pooling === undefined
        ? { choice: request.choice ?? 0, parameters: parametersOf(request) }
        : { pooling: request.pooling }),
      priority: request.priority ?? 1,
      salt: request.salt ?? '',
      account: request.account ?? '',
      kvShare: request.kvShare,
      enqueuedMs: this.nowMs,
    });
    const sequence = [...this.scheduler.waiting()].find((one) => one.id === id);
    if (sequence === undefined)
      throw new Error(this.lastReport?.events.map((event) => JSON.stringify(event)).join());
    this.#asked.set(id, { request, sequence, tokens: [], finish: undefined });
    return sequence;
  }

  /** Of all that have ended. */
  get draftTokens(): { readonly accepted: number; readonly rejected: number } {
    const counts = [...this.#asked.values()].map(({ finish }) => finish?.draftTokens);
    const sum = (key: 'accepted' | 'rejected') => counts.reduce((total, one) => total + (one?.[key] ?? 0), 0);
    return { accepted: sum('accepted'), rejected: sum('rejected') };
  }

  /** How it ended, if it has. */
  finishOf({ id }: Sequence): FinishEvent | undefined {
    return this.#asked.get(id)?.finish;
  }

  /** Takes effect with the next step. */
  cancel({ id }: Sequence): void {
    this.engine.cancel(id);
  }

  /** Whether a step is under way between two calls of `step`. */
  get isUnderWay(): boolean {
    return this.#plans.length > 0;
  }

  /** One whole cycle, with every check. `during` runs while the step computes. */
  async step(during: () => void = () => {}): Promise<StepPlan> {
    return (await this.plannedStep(during)).plan;
  }

  /** The same, with what was allowed when it was planned. */
  async plannedStep(during: () => void = () => {}): Promise<Planned> {
    this.backend.during = () => {
      during();
      this.nowMs += stepMs((this.#plans[0] as Planned).plan.load);
    };
    await this.engine.step();
    this.steps += 1;
    checkIntegrity(this.scheduler);
    return this.#plans.shift() as Planned;
  }

  /** Steps until nothing is left; throws where that does not come to pass. */
  async drain(maxSteps = 20_000): Promise<void> {
    for (let i = 0; this.scheduler.running.length + this.scheduler.waitingCount > 0; i++) {
      if (i === maxSteps) throw new Error(`not finished after ${maxSteps} steps`);
      const { items, preempted } = await this.step();
      // Where some gave way, the next plan finds room: it is made at once.
      if (items.length > 0 || preempted.length > 0) continue;
      if (this.scheduler.loads > 0) {
        await new Promise((resolve) => setImmediate(resolve));
        this.nowMs += 20;
      } else if (this.scheduler.waitingCount > 0) {
        throw new Error('an empty step although sequences wait');
      }
    }
  }

  /** Every request has ended once, with the tokens or the vector it would have had alone. */
  checkOutputs(): void {
    for (const [id, { request, sequence, tokens, finish }] of this.#asked) {
      if (finish === undefined || sequence.state !== 'finished') throw new Error(`${id} did not end`);
      const { prompt, choice = 0, newTokens, ignoreEnd = false, pooling } = request;
      if (pooling !== undefined) {
        const expected = finish.reason === 'cancelled' ? undefined : vectorAlone(prompt, pooling);
        if (finish.vector?.[0] !== expected)
          throw new Error(`${id} gave ${finish.vector}, alone ${expected}`);
        continue;
      }
      const alone = answerAlone(prompt, choice, newTokens, ignoreEnd);
      const whole = finish.reason !== 'cancelled';
      const expected = whole ? alone.tokens : alone.tokens.slice(0, tokens.length);
      if (tokens.join() !== expected.join()) {
        throw new Error(`${id} gave ${tokens.join()}, alone ${expected.join()}`);
      }
      if (whole && (finish.reason === 'error') !== alone.failed)
        throw new Error(`${id} ended with ${finish.reason}`);
      if (finish.generatedTokens !== tokens.length) throw new Error(`${id} miscounts its tokens`);
    }
  }

  #hear(report: StepReport): void {
    this.lastReport = report;
    for (const event of report.events) {
      const asked = this.#asked.get(event.id);
      if (asked === undefined) continue;
      if (asked.finish !== undefined) throw new Error(`${event.id} goes on after its end`);
      if (event.kind === 'token') asked.tokens.push(event.token);
      else asked.finish = event;
    }
  }

  /** What a step would read was written for its own salt. */
  #watchPlans(): void {
    const { scheduler } = this;
    const plan = scheduler.plan.bind(scheduler);
    scheduler.plan = (nowMs, propose) => {
      const planned = plan(nowMs, propose);
      this.#plans.push({ plan: planned, grantedBlocks: scheduler.grantedBlocks });
      for (const { salt, blocks, computed } of planned.loading) {
        for (const block of blocks.slice(computed / BLOCK_TOKENS)) this.#saltOf[block] = salt;
      }
      for (const { sequence, start, count } of planned.items) {
        const { id, salt, blocks } = sequence;
        for (const [i, block] of blocks.entries()) {
          if (i * BLOCK_TOKENS >= start + count) break;
          if (i * BLOCK_TOKENS >= start) this.#saltOf[block] = salt;
          else if (this.#saltOf[block] !== salt) {
            throw new Error(`${id} of '${salt}' reads a block of '${this.#saltOf[block]}'`);
          }
        }
      }
      return planned;
    };
  }
}

function parametersOf({ newTokens, ignoreEnd = false }: Request) {
  const result = validateSampling(
    { temperature: 0, maxTokens: newTokens, ignoreEos: ignoreEnd },
    { vocabSize: VOCABULARY, freshSeed: { low: 1, high: 2 } },
  );
  if (!result.ok) throw new Error(`${result.parameter} ${result.problem}`);
  return result.parameters;
}
