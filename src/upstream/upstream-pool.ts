// A pool that also lists the models of upstreams. They are never loaded: what needs the model itself is refused.

import type {
  AcquireOptions,
  AcquireResult,
  AdapterChange,
  ModelEntry,
  ModelPool,
} from '../pool/model-pool.ts';
import type { ServedModel } from '../pool/served-model.ts';
import type { UpstreamModel } from './upstream.ts';
import type { Upstreams } from './upstreams.ts';

export class UpstreamPool implements ModelPool {
  readonly #local: ModelPool;
  readonly #upstreams: Upstreams;
  readonly addAdapter?: (model: string | undefined, name: string, path: string) => Promise<AdapterChange>;
  readonly removeAdapter?: (name: string) => Promise<AdapterChange>;

  constructor(local: ModelPool, upstreams: Upstreams) {
    this.#local = local;
    this.#upstreams = upstreams;
    if (local.addAdapter) this.addAdapter = local.addAdapter.bind(local);
    if (local.removeAdapter) this.removeAdapter = local.removeAdapter.bind(local);
  }

  get memoryBytes(): number {
    return this.#local.memoryBytes;
  }

  /** Local models come first. One that came into the models folder later has its name before an upstream's. */
  list(): readonly ModelEntry[] {
    const local = this.#local.list();
    const taken = new Set(local.flatMap(({ name, aliases }) => [name, ...aliases]));
    const remote = this.#upstreams.models.filter(({ name }) => !taken.has(name));
    return [...local, ...remote.map((model) => this.#entry(model))];
  }

  loaded(): readonly ServedModel[] {
    return this.#local.loaded();
  }

  async acquire(name: string | undefined, options?: AcquireOptions): Promise<AcquireResult> {
    const remote = name === undefined ? undefined : this.#remote(name);
    return remote === undefined ? this.#local.acquire(name, options) : notHere(remote);
  }

  load(name: string): Promise<AcquireResult> {
    return this.acquire(name);
  }

  async unload(name: string): Promise<boolean> {
    return this.#remote(name) === undefined && this.#local.unload(name);
  }

  close(limitMs: number): Promise<void> {
    return this.#local.close(limitMs);
  }

  #remote(name: string): UpstreamModel | undefined {
    const model = this.#upstreams.find(name);
    const isListed = ({ name: one, upstream }: ModelEntry) => one === name && upstream !== undefined;
    return model !== undefined && this.list().some(isListed) ? model : undefined;
  }

  #entry({ name, upstream }: UpstreamModel): ModelEntry {
    return {
      name,
      aliases: [],
      path: '',
      upstream: upstream.name,
      state: 'loaded',
      pinned: false,
      createdSeconds: this.#upstreams.startedSeconds,
      busy: 0,
    };
  }
}

function notHere({ name, upstream }: UpstreamModel): AcquireResult {
  const message = `the model '${name}' is served by the upstream '${upstream.name}', and this needs a model that is here`;
  return { ok: false, failure: 'elsewhere', message };
}
