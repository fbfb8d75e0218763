// The pool: models by name, loaded on the first request, within a memory budget. Idle ones leave after a while,
// least recently used first when room is needed; a pinned one never does. Models that fit only in turn change places:
// one that has had its turn takes no new requests, ends those it has, and leaves; who asks for it meanwhile waits.

import { removeSavedSlots } from '../block-store/slot-files.ts';
import type { AdapterPath } from '../model/open-spec.ts';
import type { ModelSpec } from '../model/spec.ts';
import { mtpNotice, textOnlyNotice } from '../model/spec-walk.ts';
import { messageOf } from '../runtime/error-message.ts';
import { type LongTimer, runAfter } from '../runtime/timers.ts';
import { AdapterChanges } from './adapter-changes.ts';
import { type EngineChoice, engineSettings } from './engine-choice.ts';
import { type LocalModel, type LocalModelOptions, openDraft, openLocalModel } from './local-model.ts';
import { firstBytes } from './memory-ledger.ts';
import { identityOf } from './model-identity.ts';
import type { ModelKeys } from './model-keys.ts';
import { type KvChoice, type ModelMemory, planMemory } from './model-memory.ts';
import type {
  AcquireFailure,
  AcquireOptions,
  AcquireResult,
  AdapterChange,
  ModelEntry,
  ModelLease,
  ModelPool,
} from './model-pool.ts';
import {
  type AcquireRefusal,
  adapterName,
  busyOf,
  callAll,
  leasesOf,
  ModelSlots,
  type PoolModel,
  type Slot,
  turnOf,
  type Waiter,
  waitingOf,
} from './model-slots.ts';
import { givenDrafter, mtpChoice } from './mtp-choice.ts';
import { PoolMemory, type Standing, withdrawn } from './pool-memory.ts';
import type { ServedModel } from './served-model.ts';
import { removeStored } from './stored-blocks.ts';
import { SupervisedEngine } from './supervised-engine.ts';

export interface PoolOptions {
  /** The first one is the default. */
  readonly models: readonly PoolModel[];
  /** Looks for models again; without it there are those of the start alone. */
  readonly find?: () => readonly PoolModel[];
  /** What weights and KV of all models may take together. */
  readonly memoryBytes: number;
  /** Cores that engines share among them where `engine.threads` gives no number. */
  readonly cores: number;
  /** A model without requests for longer is unloaded; undefined keeps it. */
  readonly keepAliveMs: number | undefined;
  /** An engine that hangs for longer is replaced; undefined waits for ever. */
  readonly stepTimeoutMs?: number | undefined;
  /** Pause before a default model that failed is tried again. Default 10 s. */
  readonly retryMs?: number;
  readonly engine: EngineChoice;
  readonly kv: KvChoice;
  /** Says which model it is whose blocks are kept, where they are. */
  readonly modelKeys?: ModelKeys | undefined;
  readonly onEvent?: (event: PoolEvent) => void;
  /** How much of a model is loaded, from 0 to 1. */
  readonly onProgress?: ((model: string, share: number) => void) | undefined;
}

export interface PoolEvent {
  /** `fallback`: slower than it should be. `returned`: no longer. `incident`: an engine was lost. */
  readonly kind: 'loading' | 'loaded' | 'unloaded' | 'failed' | 'fallback' | 'returned' | 'incident';
  readonly model: string;
  readonly message: string;
}

const RETRY_MS = 10_000;

export class ManagedPool implements ModelPool {
  readonly #options: PoolOptions;
  readonly #slots: ModelSlots;
  readonly #adapters: AdapterChanges;
  readonly #memory: PoolMemory;
  /** By model; a slot is here from the start of its load until its engine is gone. */
  readonly #occupied = new Map<string, Slot>();
  #uses = 0;
  #retry: LongTimer | undefined;
  #fallbacks = 0;
  #closed: Promise<void> | undefined;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#slots = new ModelSlots(options.models, options.find);
    this.#adapters = new AdapterChanges(this.#slots, {
      load: (name) => this.load(name),
      unload: (slot, why) => this.#unload(slot, why),
    });
    this.#memory = new PoolMemory(options.memoryBytes, {
      standing: (name) => this.#standing(name),
      waiting: (name) => waitingOf(this.#occupied.get(name)),
      close: (names) => this.#setClosed(names),
      unload: (name) => {
        const slot = this.#occupied.get(name);
        if (slot !== undefined) void this.#unload(slot, 'its memory is needed');
      },
    });
  }

  get memoryBytes(): number {
    return this.#options.memoryBytes;
  }

  /** Times a model had to be served without batching. */
  get fallbacks(): number {
    return this.#fallbacks;
  }

  list(): readonly ModelEntry[] {
    return this.#slots.all().flatMap((slot) => {
      const { adapters = [], sees, ...rest } = slot.model;
      const model = { ...rest, ...(sees && this.#readsImages ? { sees } : {}) };
      const { served, computedBy, proven } = slot;
      const busy = busyOf(slot);
      const state = this.#memory.isWaiting(model.name) ? 'waiting' : slot.state;
      const memoryBytes = this.#memory.bytesOf(model.name);
      const expiresMs = served && (slot.expiresMs ?? Date.now() + this.#idleMs(slot));
      const known = {
        ...(served === undefined || computedBy === undefined ? {} : { computedBy }),
        ...(expiresMs === undefined || expiresMs === Number.POSITIVE_INFINITY ? {} : { expiresMs }),
        proven,
      };
      const whole = { ...model, state, busy, ...(memoryBytes > 0 ? { memoryBytes } : {}), ...known };
      const adapted = adapters.map(({ name, path, aliases, createdSeconds }) => ({
        name: adapterName(model.name, name),
        adapterOf: model.name,
        adapterPath: path,
        path: model.path,
        aliases,
        createdSeconds,
        state,
        busy: 0,
        pinned: model.pinned,
        ...(model.sees && { sees: model.sees, projectorPath: slot.model.projectorPath }),
        ...known,
      }));
      return [whole, ...adapted];
    });
  }

  get #readsImages(): boolean {
    return this.#options.engine.images === true;
  }

  loaded(): readonly ServedModel[] {
    return [...this.#occupied.values()].flatMap(({ served }) => served ?? []);
  }

  async acquire(
    name: string | undefined,
    { signal, background = false, atOnce = false }: AcquireOptions = {},
  ): Promise<AcquireResult> {
    if (this.#closed !== undefined) return closing;
    const asked = this.#slots.get(name);
    if (asked === undefined) return unknownModel(name, this.#slots.names());
    if (signal?.aborted) return cancelled;
    const { slot, adapter } = asked;
    // Counted from here on, so that nothing unloads it between loading and use.
    const waiter = { sinceMs: Date.now(), background, atOnce };
    this.#come(slot, waiter);
    const leave = () => this.#leaveQueue(slot, waiter);
    signal?.addEventListener('abort', leave, { once: true });
    const refusal = await this.#occupy(slot, waiter);
    signal?.removeEventListener('abort', leave);
    const served = adapter === undefined ? slot.served : slot.adapted[adapter];
    if (refusal === undefined && this.#closed === undefined && served !== undefined)
      return { ok: true, lease: this.#lease(slot, waiter, served) };
    leave();
    return refusal ?? closing;
  }

  load(name: string): Promise<AcquireResult> {
    return this.acquire(name);
  }

  async unload(name: string): Promise<boolean> {
    const slot = this.#slots.get(name)?.slot;
    if (slot === undefined || busyOf(slot) > 0) return false;
    await this.#unload(slot, 'on request');
    return true;
  }

  addAdapter(model: string | undefined, name: string, path: string): Promise<AdapterChange> {
    return this.#adapters.add(model, name, path);
  }

  removeAdapter(name: string): Promise<AdapterChange> {
    return this.#adapters.remove(name);
  }

  close(limitMs: number): Promise<void> {
    this.#closed ??= this.#close(limitMs);
    return this.#closed;
  }

  async #close(limitMs: number): Promise<void> {
    this.#retry?.cancel();
    this.#memory.close(closing.message);
    for (const slot of this.#slots.all()) callAll(slot.whenOpen);
    const occupied = [...this.#occupied.values()];
    const drained = Promise.all(occupied.map(({ served }) => served?.engine.drain()));
    const limit = new Promise<void>((resolve) => {
      const timer = runAfter(limitMs, resolve);
      void drained.then(() => timer.cancel());
    });
    // A load that is under way ends with its engine; nobody waits for it any more.
    const ended = occupied
      .filter(({ served }) => served === undefined)
      .map(async ({ engine, loading }) => {
        await engine?.close();
        await loading;
      });
    await Promise.race([drained, limit]);
    await Promise.all(ended);
    await Promise.all(occupied.map((slot) => this.#unload(slot, 'the server is closing')));
  }

  #standing(name: string): Standing {
    const slot = this.#occupied.get(name);
    if (slot === undefined) throw new Error(`${name} is not loaded`);
    const { served, leaving, lastUsed, engine, waiters, closed, model } = slot;
    const isIdle = leasesOf(slot) === 0 && (closed || waiters.size === 0);
    return {
      state: leaving !== undefined ? 'leaving' : served === undefined ? 'loading' : 'loaded',
      unloadable: served !== undefined && isIdle && !model.pinned,
      pinned: model.pinned,
      turn: turnOf(slot, Date.now()),
      lastUsed,
      oldestMs: engine?.oldestMs,
    };
  }

  /** Who is closed no longer takes requests again. */
  #setClosed(names: ReadonlySet<string>): void {
    for (const slot of this.#occupied.values()) {
      slot.closed = names.has(slot.model.name);
      if (!slot.closed) callAll(slot.whenOpen);
    }
  }

  #come(slot: Slot, waiter: Waiter): void {
    slot.waiters.add(waiter);
    if (busyOf(slot) === 1) this.#shareCores();
    slot.lastUsed = ++this.#uses;
    slot.idleTimer?.cancel();
    slot.expiresMs = undefined;
  }

  /** Without a lease. Nothing is loaded for nobody. */
  #leaveQueue(slot: Slot, waiter: Waiter): void {
    if (!slot.waiters.delete(waiter)) return;
    callAll(slot.whenOpen);
    if (slot.waiters.size === 0) this.#memory.withdraw(slot.model.name);
    this.#restAfterUse(slot);
  }

  #letGo(slot: Slot, { background }: Waiter): void {
    slot.leases[background ? 'background' : 'awaited']--;
    if (!background) slot.awaitedMs = Date.now();
    slot.lastUsed = ++this.#uses;
    // Who waits for room may unload it now.
    if (leasesOf(slot) === 0) this.#memory.share();
    this.#restAfterUse(slot);
  }

  #restAfterUse(slot: Slot): void {
    if (busyOf(slot) > 0) return;
    this.#memory.share();
    this.#shareCores();
    const idleMs = this.#idleMs(slot);
    if (idleMs === Number.POSITIVE_INFINITY || slot.served === undefined) return;
    slot.expiresMs = Date.now() + idleMs;
    slot.idleTimer?.cancel();
    slot.idleTimer = runAfter(idleMs, () => {
      if (busyOf(slot) === 0) void this.#unload(slot, `idle for ${idleMs / 1000} s`);
    });
  }

  /** How long it stays when nobody uses it. */
  #idleMs({ model, idleMs }: Slot): number {
    if (model.pinned) return Number.POSITIVE_INFINITY;
    return idleMs ?? this.#options.keepAliveMs ?? Number.POSITIVE_INFINITY;
  }

  /** Engines at work compute on all cores together, not on all cores each. */
  #shareCores(): void {
    if (this.#options.engine.threads !== undefined) return;
    const busy = [...this.#occupied.values()].filter((slot) => slot.engine !== undefined && busyOf(slot) > 0);
    for (const [at, { engine }] of busy.entries()) {
      engine?.useThreads(shareOfCores(this.#options.cores, busy.length, at));
    }
  }

  #lease(slot: Slot, waiter: Waiter, model: ServedModel): ModelLease {
    slot.waiters.delete(waiter);
    slot.leases[waiter.background ? 'background' : 'awaited']++;
    let released = false;
    return {
      model,
      release: (idleMs) => {
        if (released) return;
        released = true;
        if (idleMs !== undefined) slot.idleMs = idleMs;
        this.#letGo(slot, waiter);
      },
    };
  }

  /** Has the model loaded, once for all that ask at the same time, and open to new requests. */
  async #occupy(slot: Slot, waiter: Waiter): Promise<AcquireRefusal | undefined> {
    while (slot.waiters.has(waiter)) {
      // An engine that has given up is replaced; its requests have all ended.
      const failure = slot.served?.engine.failure;
      if (failure !== undefined) void this.#unload(slot, failure);
      // Nothing is waited for without need: a load has its memory before anybody else can ask.
      if (slot.leaving !== undefined) await slot.leaving;
      else if (slot.served === undefined) {
        slot.loading ??= this.#load(slot).finally(() => {
          slot.loading = undefined;
        });
        if (waiter.atOnce && this.#memory.isWaiting(slot.model.name)) return notItsTurn(slot.model.name);
        const refusal = await slot.loading;
        // The last who had waited left just before.
        if (refusal !== undefined && refusal !== cancelled) return refusal;
      } else if (!slot.closed) return undefined;
      else if (waiter.atOnce) return notItsTurn(slot.model.name);
      else await new Promise<void>((resolve) => slot.whenOpen.push(resolve));
      if (this.#closed !== undefined) return closing;
    }
    return cancelled;
  }

  /** Undefined where it went well. */
  async #load(slot: Slot): Promise<AcquireRefusal | undefined> {
    if (this.#closed !== undefined) return closing;
    const { name, path } = slot.model;
    slot.state = 'loading';
    try {
      // Pinned models never leave: what their weights take is out of reach for good.
      const pinned = [...this.#occupied.values()].filter(({ model }) => model.pinned && model !== slot.model);
      const lasting = pinned.reduce((sum, { model }) => sum + this.#memory.weightBytesOf(model.name), 0);
      const { local, memory } = this.#opened(slot.model, this.#options.memoryBytes - lasting);
      this.#occupied.set(name, slot);
      const noRoom = await this.#memory.claim(name, memory);
      if (this.#closed !== undefined) return this.#abandon(slot, closing);
      if (noRoom === withdrawn) return this.#abandon(slot, cancelled);
      if (noRoom !== undefined)
        return this.#abandon(slot, { ok: false, failure: 'no-memory', message: noRoom });
      this.#notify('loading', name, path);
      return await this.#startEngine(slot, local, memory);
    } catch (error) {
      return this.#failed(slot, 'load-failed', messageOf(error));
    }
  }

  /** A model and what it takes; without its MTP head where there is no memory for that. */
  #opened(
    { path, adapters = [], chatTemplate, toolFormat, projectorPath, draftPath }: PoolModel,
    budgetBytes: number,
  ): { readonly local: LocalModel; readonly memory: ModelMemory } {
    const { engine, kv } = this.#options;
    const { contextLength, speculation = true } = engine.engine ?? {};
    const given = givenDrafter({ backend: engine.backend, draftPath, speculation });
    const open = (mtp: LocalModelOptions['mtp']) => {
      const local = openLocalModel(path, {
        ...(contextLength === undefined ? {} : { contextLength }),
        adapters,
        chatTemplate,
        toolFormat,
        images: this.#readsImages && 'if-possible',
        projectorPath,
        mtp,
        eagle3Path: given.eagle3Path,
      });
      local.close();
      const draft = given.draftPath === undefined ? undefined : openDraft(given.draftPath, local);
      const { backend } = engine;
      return { local, memory: planMemory(local.spec, local.weights, budgetBytes, kv, { backend, draft }) };
    };
    const whole = open(mtpChoice({ backend: engine.backend, draftPath, speculation }));
    const isTooLarge = whole.local.spec.mtp !== undefined && firstBytes(whole.memory) > budgetBytes;
    // A head that was given is not left out in silence.
    return isTooLarge && given.eagle3Path === undefined
      ? open({ problem: 'there is no memory for it' })
      : whole;
  }

  async #startEngine(
    slot: Slot,
    local: LocalModel,
    memory: ModelMemory,
  ): Promise<AcquireRefusal | undefined> {
    const { name, path, adapters = [], projectorPath, draftPath } = slot.model;
    const choice = { threads: this.#options.cores, ...this.#options.engine };
    const besides = {
      adapters: adapters.map(plainPath),
      ...(projectorPath === undefined ? {} : { projectorPath }),
      ...givenDrafter({
        backend: choice.backend,
        draftPath,
        speculation: choice.engine?.speculation,
      }),
    };
    const engine = new SupervisedEngine(engineSettings(local, memory, choice, besides), {
      stepTimeoutMs: this.#options.stepTimeoutMs,
      onProgress: (share) => this.#options.onProgress?.(name, share),
      onIncident: (message) => this.#notify('incident', name, message),
      onFallback: (reason) => this.#fellBack(name, reason),
      onFailed: () => this.#retryLater(slot),
      onReturn: () => this.#notify('returned', name, 'an engine process serves again'),
    });
    slot.engine = engine;
    void this.#identify(slot, local);
    this.#shareCores();
    const startedMs = Date.now();
    const started = await engine.start();
    if (!started.ok || this.#closed !== undefined) {
      await engine.close();
      if (started.ok || started.failure === 'closed') return this.#abandon(slot, closing);
      const failure = started.failure === 'died' ? 'engine-died' : 'load-failed';
      return this.#failed(slot, failure, started.message);
    }
    const { backend, device, notice } = started.ready;
    if (notice !== undefined) this.#notify('fallback', name, notice);
    const { tokenizer, template, fillInMiddle, sampling, pooling, classifier } = local;
    const { spec } = local;
    const visionProblem = local.visionProblem ?? unseenBecause(spec, this.#options.engine.images);
    const less = textOnlyNotice(spec);
    if (less !== undefined) this.#notify('fallback', name, visionProblem ?? less);
    const withoutMtp = mtpNotice(spec);
    if (withoutMtp !== undefined) this.#notify('fallback', name, withoutMtp);
    const { blockCount } = memory;
    const servedAs = (itsName: string, adapter?: number): ServedModel => ({
      name: itsName,
      path,
      adapter,
      spec,
      visionProblem,
      tokenizer,
      template,
      pooling,
      classifier,
      fillInMiddle,
      sampling,
      engine,
      blockCount,
      get direct() {
        return engine.direct;
      },
    });
    slot.served = servedAs(name);
    slot.adapted = adapters.map((one, adapter) => servedAs(adapterName(name, one.name), adapter));
    slot.computedBy = device === undefined ? backend : `${backend}, ${device}`;
    slot.state = 'loaded';
    slot.loadedMs = Date.now();
    slot.loadMs = slot.loadedMs - startedMs;
    slot.proven = true;
    this.#memory.attach(name, engine);
    // Those that asked for it may have left meanwhile.
    this.#restAfterUse(slot);
    this.#notify('loaded', name, `up to ${blockCount} KV blocks, computed by ${slot.computedBy}`);
    return undefined;
  }

  #fellBack(name: string, reason: string): void {
    this.#fallbacks++;
    const message = `no engine process (${reason}): serving one request at a time from the server's own process`;
    this.#notify('fallback', name, message);
  }

  #failed(slot: Slot, failure: AcquireFailure, message: string): AcquireRefusal {
    this.#notify('failed', slot.model.name, message);
    this.#abandon(slot, closing);
    slot.state = 'failed';
    slot.proven = false;
    this.#retryLater(slot);
    return { ok: false, failure, message };
  }

  /** Of the default model alone: nobody else would ask for it where a balancer sees that this server is not ready. */
  #retryLater(slot: Slot): void {
    if (slot !== this.#slots.get(undefined)?.slot) return;
    // One for all who ask meanwhile and fail.
    this.#retry?.cancel();
    this.#retry = runAfter(this.#options.retryMs ?? RETRY_MS, async () => {
      const isBroken = slot.state === 'failed' || slot.served?.engine.failure !== undefined;
      if (!isBroken || this.#closed !== undefined) return;
      const result = await this.acquire(slot.model.name);
      if (result.ok) result.lease.release();
    });
  }

  /** Leaves nothing of a load that came to nothing. */
  #abandon(slot: Slot, refusal: AcquireRefusal): AcquireRefusal {
    slot.engine = undefined;
    slot.idleMs = undefined;
    slot.state = 'unloaded';
    slot.closed = false;
    this.#occupied.delete(slot.model.name);
    this.#memory.release(slot.model.name);
    callAll(slot.whenOpen);
    return refusal;
  }

  /** A hash of all its files may take a while: blocks are kept from then on. */
  async #identify(slot: Slot, { files, spec }: LocalModel): Promise<void> {
    const { tiers, slots } = this.#options.engine;
    const { engine, model } = slot;
    if ((tiers === undefined && slots === undefined) || engine === undefined) return;
    try {
      engine.identify(model.name, await identityOf(this.#options.modelKeys, files.path, spec, model));
    } catch (error) {
      this.#notify('incident', model.name, `its KV blocks are neither kept nor saved: ${messageOf(error)}`);
    }
  }

  /** Each engine forgets what it has itself, and removes what the folder has, of all models. */
  removeTenant(tenant: string): void {
    const engines = [...this.#occupied.values()].flatMap(({ engine }) => engine ?? []);
    for (const engine of engines) engine.removeTenant(tenant);
    const { tiers: { disk } = {}, slots } = this.#options.engine;
    if (slots !== undefined) {
      void removeSavedSlots(slots.folder, tenant).catch((error: unknown) => {
        this.#notify('incident', 'none', `saved slots of ${tenant} were not deleted: ${messageOf(error)}`);
      });
    }
    if (engines.length > 0 || disk === undefined) return;
    // Nobody waits for this process meanwhile: no model is loaded.
    try {
      removeStored(disk.folder, tenant, disk.keyFile);
    } catch (error) {
      this.#notify('incident', 'none', `KV blocks of ${tenant} were not deleted: ${messageOf(error)}`);
    }
  }

  /** Its memory is free when this resolves. */
  #unload(slot: Slot, why: string): Promise<void> {
    if (slot.served !== undefined) slot.leaving ??= this.#leave(slot, slot.served, why);
    return slot.leaving ?? Promise.resolve();
  }

  async #leave(slot: Slot, served: ServedModel, why: string): Promise<void> {
    slot.idleTimer?.cancel();
    slot.expiresMs = undefined;
    slot.served = undefined;
    slot.adapted = [];
    slot.state = 'unloaded';
    try {
      await served.engine.close();
    } catch (error) {
      this.#notify('incident', served.name, `while it was unloaded: ${messageOf(error)}`);
    }
    slot.leaving = undefined;
    this.#abandon(slot, closing);
    this.#notify('unloaded', served.name, why);
  }

  #notify(kind: PoolEvent['kind'], model: string, message: string): void {
    this.#options.onEvent?.({ kind, model, message });
  }
}

function unseenBecause({ textOnly }: ModelSpec, images: boolean | undefined): string | undefined {
  const isLeftOut = textOnly === true && images !== true;
  return isLeftOut ? 'this server leaves vision towers out (vision: false)' : undefined;
}

function plainPath({ name, path }: AdapterPath): AdapterPath {
  return { name, path };
}

const cancelled: AcquireRefusal = {
  ok: false,
  failure: 'cancelled',
  message: 'the request was withdrawn before its model was loaded',
};

function notItsTurn(name: string): AcquireRefusal {
  return {
    ok: false,
    failure: 'no-memory',
    message: `it is not the turn of ${name}: other models are in use`,
  };
}

const closing: AcquireRefusal = { ok: false, failure: 'closing', message: 'the server is shutting down' };

/** Whole cores, as even as can be, at least one. */
export function shareOfCores(cores: number, engines: number, at: number): number {
  return Math.max(1, Math.floor(cores / engines) + (at < cores % engines ? 1 : 0));
}

function unknownModel(name: string | undefined, known: readonly string[]): AcquireRefusal {
  const message = `there is no model named ${name}; known are ${known.join(', ') || 'none'}`;
  return { ok: false, failure: 'unknown-model', message };
}
