// Whether a request for the default model would be answered: what a load balancer goes by.

import type { ModelPool } from '../pool/model-pool.ts';
import { type HealthCheck, serves } from './health.ts';

/** A balancer sends nothing to a server that is not ready, so nobody else would make a failed model load again. */
const RETRY_MS = 10_000;

export class Readiness {
  readonly #pool: ModelPool;
  readonly #health: HealthCheck;
  readonly #nowMs: () => number;
  /** Whether the model was seen to serve since it last failed: then a request may wait while it loads. */
  #proven = false;
  #retriedMs = Number.NEGATIVE_INFINITY;

  constructor(pool: ModelPool, health: HealthCheck, nowMs: () => number) {
    this.#pool = pool;
    this.#health = health;
    this.#nowMs = nowMs;
  }

  /** Undefined where it is ready; otherwise what is missing. */
  async problem(): Promise<string | undefined> {
    const [model] = this.#pool.list();
    if (model === undefined) return 'there is no model that can be served';
    switch (model.state) {
      case 'loaded':
        return this.#engineProblem(model.name);
      case 'loading':
        return this.#proven ? undefined : `${model.name} is loading`;
      case 'unloaded':
        // The next request loads it.
        this.#proven = true;
        return undefined;
      case 'failed':
        this.#retry(model.name);
        return `${model.name} could not be loaded`;
    }
  }

  async #engineProblem(name: string): Promise<string | undefined> {
    const engine = await this.#health.checkModel(name);
    // Unloaded while it was looked at.
    if (engine === undefined) return undefined;
    this.#proven = serves(engine);
    if (this.#proven) return undefined;
    if (engine.state === 'failed') this.#retry(name);
    return `${name}: ${engine.problem ?? engine.state}`;
  }

  #retry(name: string): void {
    this.#proven = false;
    if (this.#nowMs() - this.#retriedMs < RETRY_MS) return;
    this.#retriedMs = this.#nowMs();
    // Its result shows in the next look.
    void this.#pool.load(name).then(
      (result) => {
        if (result.ok) result.lease.release();
      },
      () => {},
    );
  }
}
