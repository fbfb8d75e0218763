// Whether the engines live: each loaded one must answer, and its steps must advance while sequences run. An open
// socket alone says nothing of that.

import type { EngineHandle } from '../pool/engine-handle.ts';
import type { ModelPool } from '../pool/model-pool.ts';
import type { ServedModel } from '../pool/served-model.ts';
import { within } from './within.ts';

const ANSWER_MS = 2000;

export interface EngineHealth {
  readonly model: string;
  readonly ok: boolean;
  readonly steps?: number;
  readonly running?: number;
  readonly problem?: string;
}

export interface Health {
  readonly ok: boolean;
  readonly engines: readonly EngineHealth[];
}

interface Progress {
  readonly steps: number;
  readonly sinceMs: number;
}

export class HealthCheck {
  readonly #pool: ModelPool;
  readonly #stallMs: number;
  readonly #nowMs: () => number;
  readonly #progress = new WeakMap<EngineHandle, Progress>();

  constructor(pool: ModelPool, stallMs: number, nowMs: () => number) {
    this.#pool = pool;
    this.#stallMs = stallMs;
    this.#nowMs = nowMs;
  }

  async check(): Promise<Health> {
    const engines = await Promise.all(this.#pool.loaded().map((model) => this.#checkOne(model)));
    return { ok: engines.every(({ ok }) => ok), engines };
  }

  async #checkOne({ name, engine }: ServedModel): Promise<EngineHealth> {
    try {
      const stats = await within(engine.stats(), ANSWER_MS);
      const { steps } = stats;
      const running = stats.running.length;
      const busy = running > 0 || stats.queues.some(({ waiting }) => waiting > 0);
      const stalledMs = this.#stalledMs(engine, steps, busy);
      const known = { model: name, steps, running };
      if (stalledMs < this.#stallMs) return { ...known, ok: true };
      return {
        ...known,
        ok: false,
        problem: `${running} sequences run, but no step ended for ${stalledMs} ms`,
      };
    } catch (error) {
      return { model: name, ok: false, problem: error instanceof Error ? error.message : String(error) };
    }
  }

  /** How long the same number of steps has been seen although there is work. */
  #stalledMs(engine: EngineHandle, steps: number, busy: boolean): number {
    const nowMs = this.#nowMs();
    const before = this.#progress.get(engine);
    if (busy && before?.steps === steps) return nowMs - before.sinceMs;
    // An idle engine is measured from when work is first seen.
    if (busy) this.#progress.set(engine, { steps, sinceMs: nowMs });
    else this.#progress.delete(engine);
    return 0;
  }
}
