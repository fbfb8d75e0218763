// The database as the stores know it, whatever holds it: a file of this machine, or a Postgres server that several
// gateways share.

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
