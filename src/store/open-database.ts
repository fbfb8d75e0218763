// A database by its location: an address of Postgres, or the path of a file.

import { type Database, PATIENCE_MS } from './database.ts';
import { openEmbedded } from './embedded-database.ts';
import { isPostgresAddress } from './postgres-address.ts';
import { openPostgres } from './postgres-database.ts';

interface OpenOptions {
  /** How long to wait for a server that does not answer; default two seconds. */
  readonly patienceMs?: number;
  /** Told once where it has to be waited for. */
  readonly onWait?: (problem: Error) => void;
}

export function openDatabase(location: string, options: OpenOptions = {}): Promise<Database> {
  if (!isPostgresAddress(location)) return openEmbedded(location);
  return openPostgres(location, { patienceMs: PATIENCE_MS, onWait: () => {}, ...options });
}
