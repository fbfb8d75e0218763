// The pool: models by name, loaded on the first request, within a memory budget. Idle ones leave after a while,
// least recently used first when room is needed; a busy or pinned one never does.

import { openLocalModel } from './local-model.ts';
import { type KvWish, planMemory } from './model-memory.ts';
import type { AcquireResult, ModelEntry, ModelLease, ModelPool, ModelState } from './model-pool.ts';
import type { ServedModel } from './served-model.ts';
import { type EngineWish, startEngine } from './start-model.ts';

export interface PoolModel {
  readonly name: string;
  readonly path: string;
  readonly aliases: readonly string[];
  readonly pinned: boolean;
  readonly createdSeconds: number;
}

export interface PoolOptions {
  /** The first one is the default. */
  readonly models: readonly PoolModel[];
  readonly memoryBytes: number;
  /** A model without requests for so long is unloaded; undefined keeps it. */
  readonly keepAliveMs: number | undefined;
  readonly engine: EngineWish;
  readonly kv: KvWish;
  readonly onEvent?: (event: PoolEvent) => void;
}

export type PoolEvent =
  | {
      readonly kind: 'loading' | 'loaded' | 'unloaded' | 'failed' | 'fallback';
      readonly model: string;
      readonly message: string;
    }
  | { readonly kind: 'incident'; readonly model: string; readonly message: string };

interface Slot {
  readonly model: PoolModel;
  state: ModelState;
  served: ServedModel | undefined;
  loading: Promise<Failure | undefined> | undefined;
  memoryBytes: number;
  busy: number;
  lastUsed: number;
  timer: NodeJS.Timeout | undefined;
}

type Failure = Extract<AcquireResult, { ok: false }>;

export class ManagedPool implements ModelPool {
  readonly #options: PoolOptions;
  readonly #slots: readonly Slot[];
  readonly #byName = new Map<string, Slot>();
  #uses = 0;
  #closing = false;
  #fallbacks = 0;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#slots = options.models.map((model) => ({
      model,
      state: 'unloaded',
      served: undefined,
      loading: undefined,
      memoryBytes: 0,
      busy: 0,
      lastUsed: 0,
      timer: undefined,
    }));
    for (const slot of this.#slots) {
      for (const name of [slot.model.name, ...slot.model.aliases]) {
        if (this.#byName.has(name)) throw new Error(`two models are named ${name}`);
        this.#byName.set(name, slot);
      }
    }
  }

  /** Times a model had to be served without batching. */
  get fallbacks(): number {
    return this.#fallbacks;
  }

  list(): readonly ModelEntry[] {
    return this.#slots.map(({ model, state, memoryBytes, busy }) => ({
      ...model,
      state,
      busy,
      ...(state === 'loaded' ? { memoryBytes } : {}),
    }));
  }

  loaded(): readonly ServedModel[] {
    return this.#slots.flatMap(({ served }) => (served === undefined ? [] : [served]));
  }

  async acquire(name: string | undefined): Promise<AcquireResult> {
    const slot = name === undefined ? this.#slots[0] : this.#byName.get(name);
    if (slot === undefined) return unknownModel(name, [...this.#byName.keys()]);
    if (this.#closing) return closing;
    // An engine that has given up is replaced; its requests have all ended.
    if (slot.served?.engine.failure !== undefined) await this.#unload(slot, slot.served.engine.failure);
    // Held from here on, so that nothing unloads it between loading and use.
    this.#hold(slot);
    if (slot.served === undefined) {
      slot.loading ??= this.#load(slot).finally(() => {
        slot.loading = undefined;
      });
      const failure = await slot.loading;
      if (failure !== undefined) {
        this.#letGo(slot);
        return failure;
      }
    }
    // Only closing the pool takes a model away that is held.
    if (slot.served === undefined) return closing;
    return { ok: true, lease: this.#lease(slot, slot.served) };
  }

  load(name: string): Promise<AcquireResult> {
    return this.acquire(name);
  }

  async unload(name: string): Promise<boolean> {
    const slot = this.#byName.get(name);
    if (slot === undefined || slot.busy > 0 || slot.served === undefined) return false;
    await this.#unload(slot, 'on request');
    return true;
  }

  async close(limitMs: number): Promise<void> {
    this.#closing = true;
    const loaded = this.#slots.filter(({ served }) => served !== undefined);
    const drained = Promise.all(loaded.map(({ served }) => served?.engine.drain()));
    let timer: NodeJS.Timeout | undefined;
    const limit = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, limitMs);
    });
    await Promise.race([drained, limit]);
    clearTimeout(timer);
    await Promise.all(loaded.map((slot) => this.#unload(slot, 'the server is closing')));
  }

  #hold(slot: Slot): void {
    slot.busy++;
    slot.lastUsed = ++this.#uses;
    clearTimeout(slot.timer);
    slot.timer = undefined;
  }

  #letGo(slot: Slot): void {
    slot.busy--;
    slot.lastUsed = ++this.#uses;
    const { keepAliveMs } = this.#options;
    if (slot.busy > 0 || slot.model.pinned || keepAliveMs === undefined || slot.served === undefined) return;
    slot.timer = setTimeout(() => {
      if (slot.busy === 0 && slot.served !== undefined)
        void this.#unload(slot, `idle for ${keepAliveMs / 1000} s`);
    }, keepAliveMs);
    slot.timer.unref();
  }

  #lease(slot: Slot, model: ServedModel): ModelLease {
    let released = false;
    return {
      model,
      release: () => {
        if (released) return;
        released = true;
        this.#letGo(slot);
      },
    };
  }

  /** Undefined where it went well. */
  async #load(slot: Slot): Promise<Failure | undefined> {
    const { name, path } = slot.model;
    slot.state = 'loading';
    this.#tell('loading', name, path);
    try {
      const { contextLength } = this.#options.engine;
      const local = openLocalModel(path, contextLength === undefined ? {} : { contextLength });
      local.close();
      const memory = planMemory(local, this.#options.memoryBytes, this.#options.kv);
      const refusal = await this.#makeRoom(slot, memory.totalBytes);
      if (refusal !== undefined) return this.#failed(slot, 'no-memory', refusal);
      const started = await startEngine(local, memory.blockCount, this.#options.engine, {
        onIncident: (message) => this.#tell('incident', name, message),
      });
      if (started.direct && this.#options.engine.direct !== true) this.#fallbacks++;
      for (const notice of started.notices) this.#tell('fallback', name, notice);
      slot.served = {
        name,
        path,
        spec: local.spec,
        tokenizer: local.tokenizer,
        template: local.template,
        engine: started.handle,
        blockCount: memory.blockCount,
        direct: started.direct,
      };
      slot.memoryBytes = memory.totalBytes;
      slot.state = 'loaded';
      this.#tell('loaded', name, `${memory.blockCount} K/V blocks, ${started.backend} backend`);
      return undefined;
    } catch (error) {
      return this.#failed(slot, 'load-failed', error instanceof Error ? error.message : String(error));
    }
  }

  #failed(slot: Slot, failure: Failure['failure'], message: string): Failure {
    slot.state = 'failed';
    this.#tell('failed', slot.model.name, message);
    return { ok: false, failure, message };
  }

  /** Unloads idle models until `bytes` fit; says why where they cannot. */
  async #makeRoom(slot: Slot, bytes: number): Promise<string | undefined> {
    const used = () => this.#slots.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0);
    const { memoryBytes: budget } = this.#options;
    while (used() + bytes > budget) {
      const idle = this.#slots
        .filter(
          (other) => other !== slot && other.served !== undefined && other.busy === 0 && !other.model.pinned,
        )
        .sort((a, b) => a.lastUsed - b.lastUsed)[0];
      if (idle === undefined) {
        const free = Math.max(0, budget - used());
        return `${slot.model.name} needs ${megabytes(bytes)}, but ${megabytes(free)} of the memory budget of ${megabytes(budget)} are free and no other model is idle`;
      }
      await this.#unload(idle, `room for ${slot.model.name}`);
    }
    return undefined;
  }

  async #unload(slot: Slot, why: string): Promise<void> {
    const { served } = slot;
    clearTimeout(slot.timer);
    slot.served = undefined;
    slot.state = 'unloaded';
    slot.memoryBytes = 0;
    await served?.engine.close();
    this.#tell('unloaded', slot.model.name, why);
  }

  #tell(kind: PoolEvent['kind'], model: string, message: string): void {
    this.#options.onEvent?.({ kind, model, message });
  }
}

const closing: Failure = { ok: false, failure: 'closing', message: 'the server is shutting down' };

function unknownModel(name: string | undefined, known: readonly string[]): Failure {
  const message = `there is no model named ${name}; known are ${known.join(', ') || 'none'}`;
  return { ok: false, failure: 'unknown-model', message };
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / 1e6).toLocaleString('en-US')} MB`;
}
