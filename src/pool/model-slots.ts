// The models that the pool knows, each with its place. Looks again for models from time to time, so that one that
// came into its folder is served, and one that was removed is not, without a restart.

import type { AdapterPath } from '../model/open-spec.ts';
import type { LongTimer } from '../runtime/timers.ts';
import type { ChosenTemplate } from '../text/chosen-template.ts';
import type { FormatName } from '../text/formats/format.ts';
import type { AcquireResult, ModelState } from './model-pool.ts';
import type { LoadWait } from './pool-memory.ts';
import type { ServedModel } from './served-model.ts';
import type { SupervisedEngine } from './supervised-engine.ts';
import type { Turn } from './turns.ts';

export interface PoolModel {
  readonly name: string;
  readonly path: string;
  readonly aliases: readonly string[];
  /** Each is asked for as `model:adapter`, by its own name and by aliases of that. */
  readonly adapters?: readonly PoolAdapter[];
  readonly pinned: boolean;
  readonly createdSeconds: number;
  readonly headless?: true;
  readonly sees?: true;
  /** Where somebody chose one. */
  readonly chatTemplate?: ChosenTemplate | undefined;
  readonly toolFormat?: FormatName | undefined;
  /** Of a GGUF: its projector file, where somebody chose one. */
  readonly projectorPath?: string | undefined;
  /** A smaller model that drafts for it. */
  readonly draftPath?: string | undefined;
}

export interface PoolAdapter extends AdapterPath {
  readonly createdSeconds: number;
  readonly aliases: readonly string[];
}

/** What a name stands for. */
interface Asked {
  readonly slot: Slot;
  readonly adapter: number | undefined;
}

export type AcquireRefusal = Extract<AcquireResult, { ok: false }>;

export interface Waiter {
  readonly sinceMs: number;
  readonly background: boolean;
  readonly atOnce: boolean;
}

export interface Slot {
  model: PoolModel;
  state: ModelState;
  /** From the start of its load until it is gone. */
  engine: SupervisedEngine | undefined;
  served: ServedModel | undefined;
  /** The same with each of its adapters. */
  adapted: readonly ServedModel[];
  /** What computes it, while it is served. */
  computedBy: string | undefined;
  /** The load under way: undefined, or why it failed. */
  loading: Promise<AcquireRefusal | undefined> | undefined;
  /** Its unloading under way. */
  leaving: Promise<void> | undefined;
  /** Leases that are held: those of requests that are awaited, and of background ones. */
  readonly leases: { awaited: number; background: number };
  /** Who waits for a lease, the oldest first. */
  readonly waiters: Set<Waiter>;
  /** It gives no new leases: others wait for its room. Its own waiters are called when it opens or has left. */
  closed: boolean;
  readonly whenOpen: (() => void)[];
  /** When it was last loaded, and how long that took. */
  loadedMs: number;
  loadMs: number;
  /** When an awaited request last used it. */
  awaitedMs: number;
  /** Whether it has been loaded since it last failed. */
  proven: boolean;
  /** Larger is later. */
  lastUsed: number;
  /** How long it may be idle, where a request said so. */
  idleMs: number | undefined;
  idleTimer: LongTimer | undefined;
  /** Milliseconds since 1970 when the timer ends. */
  expiresMs: number | undefined;
}

/** Looking again reads folders and, of what is new, headers. */
const LOOK_AGAIN_MS = 1000;

export class ModelSlots {
  readonly #find: (() => readonly PoolModel[]) | undefined;
  readonly #nowMs: () => number;
  #slots: Slot[] = [];
  #byName = new Map<string, Asked>();
  #lookedMs: number;

  /** The first model is the default. `find` is asked again later, as often as anybody looks. */
  constructor(
    models: readonly PoolModel[],
    find: (() => readonly PoolModel[]) | undefined,
    nowMs: () => number = () => performance.now(),
  ) {
    this.#find = find;
    this.#nowMs = nowMs;
    this.#lookedMs = nowMs();
    this.#slots = models.map(emptySlot);
    for (const slot of this.#slots) {
      for (const { names, adapter } of namesOf(slot.model)) {
        for (const name of names) {
          if (this.#byName.has(name)) throw new Error(`two models are named ${name}`);
          this.#byName.set(name, { slot, adapter });
        }
      }
    }
  }

  /** The default model first. */
  all(): readonly Slot[] {
    this.#lookAgain();
    return this.#slots;
  }

  /** By a name or an alias; undefined is the default model. */
  get(name: string | undefined): Asked | undefined {
    const [first] = this.#slots;
    if (name === undefined) return first && { slot: first, adapter: undefined };
    const known = this.#byName.get(name);
    if (known !== undefined) return known;
    this.#lookAgain();
    return this.#byName.get(name);
  }

  names(): string[] {
    return [...this.#byName.keys()];
  }

  /** Whether a model has this name. */
  has(name: string): boolean {
    return this.#byName.has(name);
  }

  setAdapters(slot: Slot, adapters: readonly PoolAdapter[]): void {
    slot.model = { ...slot.model, adapters };
    this.#nameAll();
  }

  #lookAgain(): void {
    if (this.#find === undefined || this.#nowMs() - this.#lookedMs < LOOK_AGAIN_MS) return;
    this.#lookedMs = this.#nowMs();
    const found = this.#find();
    const paths = new Set(found.map(({ path }) => path));
    // What is in use stays until it is unloaded.
    const kept = this.#slots.filter((slot) => paths.has(slot.model.path) || !isEmpty(slot));
    const known = new Map(kept.map((slot) => [slot.model.path, slot]));
    for (const model of found) {
      const slot = known.get(model.path);
      // A model keeps the names it was first served by, and its pin, though a newcomer may be called the same.
      if (slot !== undefined) slot.model = { ...slot.model, createdSeconds: model.createdSeconds };
    }
    const newcomers = found.filter(({ path }) => !known.has(path)).map(emptySlot);
    this.#slots = [...kept, ...newcomers];
    this.#nameAll();
  }

  #nameAll(): void {
    this.#byName = new Map();
    for (const slot of this.#slots) {
      slot.model = { ...slot.model, name: this.#freeName(slot.model.name) };
      this.#byName.set(slot.model.name, { slot, adapter: undefined });
    }
    for (const slot of this.#slots) {
      for (const { names, adapter } of namesOf(slot.model)) {
        for (const name of names) if (!this.#byName.has(name)) this.#byName.set(name, { slot, adapter });
      }
    }
  }

  #freeName(name: string): string {
    let free = name;
    for (let number = 2; this.#byName.has(free); number++) free = `${name}-${number}`;
    return free;
  }
}

/** What clients call an adapter. */
export function adapterName(model: string, adapter: string): string {
  return `${model}:${adapter}`;
}

function namesOf({ name, aliases, adapters = [] }: PoolModel) {
  return [
    { names: [name, ...aliases], adapter: undefined },
    ...adapters.map((one, adapter) => ({ names: [adapterName(name, one.name), ...one.aliases], adapter })),
  ];
}

/** Leases and those who wait for one. */
export function busyOf({ leases, waiters }: Slot): number {
  return leasesOf({ leases }) + waiters.size;
}

export function leasesOf({ leases }: Pick<Slot, 'leases'>): number {
  return leases.awaited + leases.background;
}

/** As it stands with its turn. */
export function turnOf({ loadedMs, loadMs, awaitedMs, leases }: Slot, nowMs: number): Turn {
  const use = leases.awaited > 0 ? 'awaited' : leases.background > 0 ? 'background' : 'idle';
  return { loadedMs, loadMs, use, awaitedMs: use === 'awaited' ? nowMs : awaitedMs };
}

/** By its waiters: the oldest of them, and whether anybody waits for an answer. */
export function waitingOf(slot: Slot | undefined): LoadWait {
  const waiters = [...(slot?.waiters ?? [])];
  return {
    sinceMs: Math.min(...waiters.map(({ sinceMs }) => sinceMs)),
    background: waiters.every(({ background }) => background),
    atOnce: waiters.every(({ atOnce }) => atOnce),
  };
}

export function callAll(calls: (() => void)[]): void {
  for (const call of calls.splice(0)) call();
}

function isEmpty(slot: Slot): boolean {
  return slot.engine === undefined && slot.loading === undefined && busyOf(slot) === 0;
}

function emptySlot(model: PoolModel): Slot {
  return {
    model,
    state: 'unloaded',
    engine: undefined,
    served: undefined,
    adapted: [],
    computedBy: undefined,
    loading: undefined,
    leaving: undefined,
    leases: { awaited: 0, background: 0 },
    waiters: new Set(),
    closed: false,
    whenOpen: [],
    loadedMs: 0,
    loadMs: 0,
    awaitedMs: 0,
    proven: false,
    lastUsed: 0,
    idleMs: undefined,
    idleTimer: undefined,
    expiresMs: undefined,
  };
}
