// Checks the engines, each of which must answer and must end steps while sequences run; and readiness: whether a request for
// the default model would be answered. No check loads a model, and none asks another machine: the slowest would decide.

import type { EngineClient, EngineLoad } from '../../engine/engine-client.ts';
import type { ModelPool } from '../../pool/model-pool.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import { messageOf } from '../../runtime/error-message.ts';
import { within } from '../../runtime/timers.ts';

/** Shorter than a probe waits: Kubernetes gives up after a second. */
const ANSWER_MS = 500;
const SILENT_MS = 2000;

/**
 * `direct`: serves without batching, by choice or for want of a process. `restarting`: a new process takes over.
 * `stalled`: sequences run and no step ends. `silent`: does not answer. `failed`: has given up.
 */
type EngineState = 'ok' | 'direct' | 'restarting' | 'stalled' | 'silent' | 'failed';

interface EngineHealth {
  readonly model: string;
  readonly state: EngineState;
  readonly steps?: number;
  readonly running?: number;
  readonly problem?: string;
}

interface Progress {
  readonly steps: number;
  readonly sinceMs: number;
}

export class HealthCheck {
  readonly #pool: ModelPool;
  readonly #stallMs: number;
  readonly #nowMs: () => number;
  readonly #progress = new WeakMap<EngineClient, Progress>();
  readonly #unansweredMs = new WeakMap<EngineClient, number>();

  constructor(pool: ModelPool, stallMs: number, nowMs: () => number) {
    this.#pool = pool;
    this.#stallMs = stallMs;
    this.#nowMs = nowMs;
  }

  async check(): Promise<EngineHealth[]> {
    const all = await Promise.all(this.#pool.loaded().map((model) => this.#checkLoaded(model)));
    return all.filter((one) => one !== undefined);
  }

  async checkModel(name: string): Promise<EngineHealth | undefined> {
    const model = this.#pool.loaded().find((one) => one.name === name);
    return model === undefined ? undefined : this.#checkLoaded(model);
  }

  /** Undefined where the engine was unloaded while it was asked: that is no fault. */
  async #checkLoaded(model: ServedModel): Promise<EngineHealth | undefined> {
    const health = await this.#checkOne(model);
    const isLoaded = () => this.#pool.loaded().some(({ engine }) => engine === model.engine);
    return serves(health) || isLoaded() ? health : undefined;
  }

  async #checkOne({ name: model, engine, direct }: ServedModel): Promise<EngineHealth> {
    const { failure } = engine;
    if (failure !== undefined) return { model, state: 'failed', problem: failure };
    if (engine.knownLoad !== undefined) return knownHealth(model, engine.knownLoad());
    const askedMs = this.#nowMs();
    const asked = engine
      .stats()
      .catch((error: unknown) => messageOf(error))
      .finally(() => this.#unansweredMs.delete(engine));
    const stats = await within(asked, ANSWER_MS).catch((error: unknown) => ({ late: messageOf(error) }));
    if (typeof stats === 'string') return { model, state: 'restarting', problem: stats };
    if ('late' in stats) {
      const sinceMs = this.#unansweredMs.get(engine) ?? askedMs;
      this.#unansweredMs.set(engine, sinceMs);
      const silentMs = this.#nowMs() - sinceMs;
      if (silentMs < SILENT_MS) return { model, state: direct ? 'direct' : 'ok' };
      return { model, state: 'silent', problem: `no answer for ${silentMs} ms` };
    }
    const { steps } = stats;
    const running = stats.running.length;
    // Sequences that wait, for blocks for example, advance no step, and that is no fault.
    const stalledMs = this.#stalledMs(engine, steps, running > 0);
    if (stalledMs < this.#stallMs) return { model, state: direct ? 'direct' : 'ok', steps, running };
    const problem = `${running} sequences run, but no step ended for ${stalledMs} ms`;
    return { model, state: 'stalled', steps, running, problem };
  }

  /** How long the number of steps has not changed although sequences run. */
  #stalledMs(engine: EngineClient, steps: number, busy: boolean): number {
    const nowMs = this.#nowMs();
    const before = this.#progress.get(engine);
    if (busy && before?.steps === steps) return nowMs - before.sinceMs;
    // An idle engine is measured from when sequences are first seen to run.
    if (busy) this.#progress.set(engine, { steps, sinceMs: nowMs });
    else this.#progress.delete(engine);
    return 0;
  }
}

/** Engines of a fleet: one worker that serves is enough. */
function knownHealth(model: string, load: EngineLoad | undefined): EngineHealth {
  if (load !== undefined) return { model, state: 'ok', running: load.running };
  return { model, state: 'silent', problem: 'no worker that serves it is known' };
}

export function serves({ state }: EngineHealth): boolean {
  return state === 'ok' || state === 'direct';
}

export class Readiness {
  readonly #pool: ModelPool;
  readonly #health: HealthCheck;
  /** Whether the model was seen to serve since it last failed: then a request may wait while it loads. */
  #proven = false;

  constructor(pool: ModelPool, health: HealthCheck) {
    this.#pool = pool;
    this.#health = health;
  }

  async problem(): Promise<string | undefined> {
    const [model] = this.#pool.list();
    if (model === undefined) return 'there is no model that can be served';
    if (model.proven === true) this.#proven = true;
    switch (model.state) {
      case 'loaded':
        return this.#engineProblem(model.name);
      case 'loading':
        return this.#proven ? undefined : `${model.name} is loading`;
      case 'unloaded':
      case 'waiting':
        // The next request loads it, and waits for its turn where other models are busy.
        this.#proven = true;
        return undefined;
      case 'away':
        return `no worker that has ${model.name} can be reached`;
      case 'failed':
        this.#proven = false;
        return `${model.name} could not be loaded`;
    }
  }

  async #engineProblem(name: string): Promise<string | undefined> {
    const engine = await this.#health.checkModel(name);
    // The model was unloaded during the check.
    if (engine === undefined) return undefined;
    this.#proven = serves(engine);
    return this.#proven ? undefined : `${name}: ${engine.problem ?? engine.state}`;
  }
}
