// Whether a request for the default model would be answered, for load balancers. The check loads no model.

import type { ModelPool } from '../../pool/model-pool.ts';
import { type HealthCheck, serves } from './health.ts';

export class Readiness {
  readonly #pool: ModelPool;
  readonly #health: HealthCheck;
  /** Whether the model was seen to serve since it last failed: then a request may wait while it loads. */
  #proven = false;

  constructor(pool: ModelPool, health: HealthCheck) {
    this.#pool = pool;
    this.#health = health;
  }

  /** Undefined where it is ready; otherwise what is missing. */
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
