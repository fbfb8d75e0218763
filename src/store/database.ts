// The database as the stores know it, whatever holds it: a file of this machine, or a Postgres server that several
// gateways share.

import { homedir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Kysely } from 'kysely';
import type { Schema } from './schema.ts';

export type Tables = Kysely<Schema>;

/** How long a change waits for what holds it up, and how long an opening does, where nobody says otherwise. */
export const PATIENCE_MS = 2000;

export interface Database {
  readonly kind: 'embedded' | 'postgres';
  /** For people: a path, or an address without its password. */
  readonly name: string;
  /** For reading; what writes goes through `change`, with the tables it is given. */
  readonly tables: Pick<Tables, 'selectFrom'>;
  /** A number that differs once somebody else has changed the keys; maybe also where they changed something else. Cheap. */
  keysVersion(): Promise<number>;
  /**
   * Makes a change, whole or not at all. Where others are in the way it is tried again for so long, by default for two
   * seconds, and the thread does other things meanwhile; then it fails as busy. Where the database is lost on the way
   * it fails as unreachable, and may have been made.
   */
  change<Result>(action: (tables: Tables) => Promise<Result>, patienceMs?: number): Promise<Result>;
  /** Puts what was committed on the disk now, so that a power cut cannot undo it. */
  sync(): Promise<void>;
  close(): Promise<void>;
}

export const IN_MEMORY = ':memory:';

export function defaultDatabasePath(): string {
  return join(homedir(), '.chairlift', 'chairlift.db');
}

/** `refused`: the database answers, and does not let us do it. */
type StoreFault = 'damaged' | 'foreign' | 'newer' | 'busy' | 'unreachable' | 'refused';

export class StoreError extends Error {
  override readonly name = 'StoreError';
  readonly fault: StoreFault;

  constructor(fault: StoreFault, message: string, cause?: unknown) {
    super(message, { cause });
    this.fault = fault;
  }
}

/** Fails as unreachable where it takes longer; what it comes to then is nobody's. */
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
