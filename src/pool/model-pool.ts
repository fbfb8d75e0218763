// The contract of the pool: models by name, loaded on demand.

import type { ServedModel } from './served-model.ts';

/**
 * `waiting`: it was asked for, and is loaded as soon as other models have made room. `away`: of a fleet, no worker that has it can
 * be reached now.
 */
export type ModelState = 'unloaded' | 'waiting' | 'loading' | 'loaded' | 'failed' | 'away';

export interface ModelEntry {
  readonly name: string;
  readonly aliases: readonly string[];
  readonly path: string;
  /** The model it is an adapter of, which is loaded, busy and in memory for both. */
  readonly adapterOf?: string;
  readonly adapterPath?: string;
  /** The upstream that serves it: it is not on this machine, and has no path. */
  readonly upstream?: string;
  readonly state: ModelState;
  readonly pinned: boolean;
  /** Seconds since 1970 when the file was last changed. */
  readonly createdSeconds: number;
  /** It writes no text; absent where that is not known, too. */
  readonly headless?: true;
  /** It reads images; absent where that is not known, too. */
  readonly sees?: true;
  /** The projector file that was named for it. */
  readonly projectorPath?: string | undefined;
  /** Weights, and the KV blocks it may hold now, where it is loaded or loading. */
  readonly memoryBytes?: number;
  /** Requests that use it now, or wait for it. */
  readonly busy: number;
  /** Whether it has served since it last failed; absent where that is not known. */
  readonly proven?: boolean;
  /** What computes, where it is loaded: the backend, and the GPU if there is one. */
  readonly computedBy?: string;
  /** Milliseconds since 1970 when it is unloaded if nobody asks for it; absent where it stays. */
  readonly expiresMs?: number;
}

/** While a lease is held, its model is not unloaded. */
export interface ModelLease {
  readonly model: ServedModel;
  /**
   * `idleMs`: how long the model stays without requests, until somebody says otherwise or it is unloaded; infinity keeps
   * it as long as its memory is not needed. Where nobody says, the pool's own setting counts; a pinned model stays.
   */
  release(idleMs?: number): void;
}

/**
 * `load-failed`: the model itself is to blame. `engine-died`: its engine did not survive the load; it may later. `elsewhere`: an
 * upstream has it. `away`: the machines that have it cannot be reached now.
 */
export type AcquireFailure =
  | 'unknown-model'
  | 'elsewhere'
  | 'no-memory'
  | 'load-failed'
  | 'engine-died'
  | 'away'
  | 'cancelled'
  | 'closing';

export interface AcquireOptions {
  /** Ends the wait: nobody wants the model any more. */
  readonly signal?: AbortSignal | undefined;
  /** Nobody waits for the answer: it makes busy models leave later than others do. */
  readonly background?: boolean | undefined;
  /** Refused where other models would have to become idle first. */
  readonly atOnce?: boolean | undefined;
}

export type AcquireResult =
  | { readonly ok: true; readonly lease: ModelLease }
  | { readonly ok: false; readonly failure: AcquireFailure; readonly message: string };

/** `busy`: requests use the model. `unusable`: the adapter is not there, or does not fit. */
export type AdapterChange =
  | { readonly ok: true }
  | {
      readonly ok: false;
      readonly failure: 'unknown-model' | 'unknown-adapter' | 'exists' | 'busy' | 'unusable';
      readonly message: string;
    };

export interface ModelPool {
  /** What weights and KV of all models may take together. */
  readonly memoryBytes: number;
  /** The default model first. Models that came into their folder meanwhile are there, too. */
  list(): readonly ModelEntry[];
  /** Those loaded now, for metrics and health: looking does not count as use. */
  loaded(): readonly ServedModel[];
  /**
   * Loads the model first where it is not loaded, and waits until it has its turn where it fits only instead of others.
   * A name, an alias, or undefined for the default model.
   */
  acquire(name: string | undefined, options?: AcquireOptions): Promise<AcquireResult>;
  load(name: string): Promise<AcquireResult>;
  /** Whether it is unloaded now; false where it is busy, or unknown. */
  unload(name: string): Promise<boolean>;
  /**
   * Adds an adapter, which then is a model by its own name as well. A loaded model is loaded again with it. Absent where models
   * are served by other machines.
   */
  addAdapter?(model: string | undefined, name: string, path: string): Promise<AdapterChange>;
  /** By any of its names. */
  removeAdapter?(name: string): Promise<AdapterChange>;
  /** Deletes what is kept of a tenant's KV blocks below memory. Absent where models are served by other machines. */
  removeTenant?(tenant: string): void;
  /** Refuses new leases, waits for running requests up to a limit, closes every engine. */
  close(limitMs: number): Promise<void>;
}
