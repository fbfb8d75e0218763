// The database as the stores use it: a file of this machine, or a Postgres server that several gateways share.

import { homedir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Kysely } from 'kysely';
import type { Schema } from './schema.ts';

export type Tables = Kysely<Schema>;

/** The default time limit of a change and of opening a database. */
export const PATIENCE_MS = 2000;

export interface Database {
  readonly kind: 'embedded' | 'postgres';
  /** For messages: a path, or an address without its password. */
  readonly name: string;
  /** For reading; writes go through `change`. */
  readonly tables: Pick<Tables, 'selectFrom'>;
  /**
   * By its own clock, in milliseconds since 1970: whatever servers that share it leave each other, leases and ends of time,
   * is measured by this one alone. `within`: the transaction that asks, if one does.
   */
  nowMs(within?: Tables): Promise<number>;
  /** Changes whenever another process has changed the keys, maybe also for other changes. Cheap. */
  keysVersion(): Promise<number>;
  /**
   * Runs a transaction. A busy database is retried for `patienceMs`, by default two seconds; then the change fails as
   * busy. A lost connection fails as unreachable, and the change may have been made.
   */
  change<Result>(action: (tables: Tables) => Promise<Result>, patienceMs?: number): Promise<Result>;
  /** Flushes commits to the disk, so that a power cut cannot undo them. */
  sync(): Promise<void>;
  close(): Promise<void>;
}

export const IN_MEMORY = ':memory:';

export function defaultDatabasePath(): string {
  return join(homedir(), '.chairlift', 'chairlift.db');
}

/** `refused`: the database answers but rejects the operation. */
type StoreFault = 'damaged' | 'foreign' | 'newer' | 'busy' | 'unreachable' | 'refused';

export class StoreError extends Error {
  override readonly name = 'StoreError';
  readonly fault: StoreFault;

  constructor(fault: StoreFault, message: string, cause?: unknown) {
    super(message, { cause });
    this.fault = fault;
  }
}

/** Fails as unreachable after the time limit. */
export async function inTime<Result>(
  name: string,
  limitMs: number,
  action: Promise<Result>,
): Promise<Result> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const error = new StoreError('unreachable', `${name} does not answer within ${limitMs} ms.`);
    timer = setTimeout(() => reject(error), limitMs);
  });
  try {
    return await Promise.race([action, late]);
  } finally {
    clearTimeout(timer);
    action.catch(() => {});
  }
}

const RETRY_MS = 25;

/** Repeats an action that fails as busy, until the time is up. */
export async function retryWhileBusy<Result>(
  action: () => Promise<Result>,
  patienceMs: number,
): Promise<Result> {
  const endMs = performance.now() + patienceMs;
  for (;;) {
    try {
      return await action();
    } catch (error) {
      const busy = error instanceof StoreError && error.fault === 'busy';
      if (!busy || performance.now() >= endMs) throw error;
      await sleep(RETRY_MS);
    }
  }
}
