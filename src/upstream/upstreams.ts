// The upstreams of this server, their models by the names that clients use, and which of them stand in for local ones.

import { randomBytes } from 'node:crypto';
import type { ModelEntry } from '../pool/model-pool.ts';
import type { Upstream, UpstreamModel } from './upstream.ts';

/** A model of an upstream that answers where a local one would keep a request waiting. */
export interface Fallback {
  readonly model: UpstreamModel;
  /** How long a request waits for the local model. Undefined: not at all for its load, and in its queue as long as it takes. */
  readonly waitMs: number | undefined;
}

/** Longer ways are taken for loops: servers behind one name may have several identities. */
const MOST_HOPS = 4;

export class Upstreams {
  readonly models: readonly UpstreamModel[];
  readonly #fallbacks: ReadonlyMap<string, Fallback>;
  readonly #upstreams: readonly Upstream[];
  /** Unlike that of any other server. */
  readonly #identity = randomBytes(8).toString('hex');
  readonly startedSeconds = Math.floor(Date.now() / 1000);

  constructor(models: readonly UpstreamModel[], fallbacks: ReadonlyMap<string, Fallback> = new Map()) {
    this.models = models;
    this.#fallbacks = fallbacks;
    this.#upstreams = [...new Set(models.map(({ upstream }) => upstream))];
  }

  find(name: string): UpstreamModel | undefined {
    return this.models.find((one) => one.name === name);
  }

  /** Names of local models that have a fallback. */
  get replaced(): readonly string[] {
    return [...this.#fallbacks.keys()];
  }

  /** Of a local model, by any of its names; `default` is that of the default model. */
  fallbackFor(
    { name, aliases }: Pick<ModelEntry, 'name' | 'aliases'>,
    isDefault: boolean,
  ): Fallback | undefined {
    return [name, ...aliases, ...(isDefault ? ['default'] : [])]
      .map((one) => this.#fallbacks.get(one))
      .find((one) => one !== undefined);
  }

  /** `came`: the header of the request that came in. Undefined where the request must not be sent on. */
  via(came: string | undefined): string | undefined {
    const hops = (came ?? '').split(',').flatMap((one) => one.trim() || []);
    if (hops.includes(this.#identity) || hops.length >= MOST_HOPS) return undefined;
    return [...hops, this.#identity].join(', ');
  }

  close(): void {
    for (const upstream of this.#upstreams) upstream.close();
  }
}
