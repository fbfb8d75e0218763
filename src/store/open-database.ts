// Opens a database by its location: a Postgres address or a path.

import { type Database, PATIENCE_MS } from './database.ts';
import { openEmbedded } from './embedded-database.ts';
import { isPostgresAddress } from './postgres-address.ts';
import { openPostgres } from './postgres-database.ts';

interface OpenOptions {
  /** How long to wait for an unreachable server. Default two seconds. */
  readonly patienceMs?: number;
  /** Called once when waiting begins. */
  readonly onWait?: (problem: Error) => void;
  /** To a Postgres, at most. Default four. */
  readonly connections?: number;
}

const CONNECTIONS = 4;

export function openDatabase(location: string, options: OpenOptions = {}): Promise<Database> {
  if (!isPostgresAddress(location)) return openEmbedded(location);
  const defaults = { patienceMs: PATIENCE_MS, onWait: () => {}, connections: CONNECTIONS };
  return openPostgres(location, { ...defaults, ...options });
}
