// Converts failures of SQLite and Postgres to errors that say what to do.

import { messageOf } from '../runtime/error-message.ts';
import { StoreError } from './database.ts';

/** Other errors are returned as they are. */
export function explainFailure(path: string, error: unknown): unknown {
  if (error instanceof StoreError) return error;
  switch (codeOf(error)) {
    case 'SQLITE_NOTADB':
    case 'SQLITE_CORRUPT':
      return new StoreError(
        'damaged',
        `${path} is damaged or no database. Put a backup in its place, or move it away and create the keys anew.`,
        error,
      );
    case 'SQLITE_BUSY':
      return new StoreError(
        'busy',
        `${path} is locked by another process. Try again; if it stays so, end the process that holds it.`,
        error,
      );
    case 'SQLITE_FULL':
      return unreachableFile(path, 'cannot grow: the disk is full', error);
    case 'SQLITE_READONLY':
    case 'EROFS':
    case 'EACCES':
    case 'EPERM':
      return unreachableFile(path, 'may not be written by this user', error);
    case 'ENOTDIR':
    case 'EEXIST':
      return unreachableFile(path, 'lies under something that is no folder', error);
    case 'SQLITE_IOERR':
    case 'SQLITE_CANTOPEN':
      return unreachableFile(path, 'cannot be read and written as a file', error);
    default:
      return isSystemError(error)
        ? unreachableFile(path, `cannot be opened (${error.message})`, error)
        : error;
  }
}

function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'syscall' in error;
}

function unreachableFile(path: string, problem: string, cause: unknown): StoreError {
  return new StoreError('unreachable', `${path} ${problem}. Mend that, or choose another path.`, cause);
}

/** The primary code: SQLite's extended ones add a word, as in SQLITE_IOERR_READ. */
function codeOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null) return undefined;
  if ('code' in error && typeof error.code === 'string' && error.code !== '') {
    return error.code.startsWith('SQLITE_') ? error.code.split('_', 2).join('_') : error.code;
  }
  // The library gives no code where it cannot even connect.
  return error instanceof Error && error.message.startsWith('ConnectionFailed')
    ? 'SQLITE_CANTOPEN'
    : undefined;
}

export function explainPostgres(name: string, error: unknown): unknown {
  if (error instanceof StoreError || !(error instanceof Error)) return error;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  const explained = refusals[code] ?? spoken(code, error);
  if (explained !== undefined) return new StoreError('refused', `${name} ${explained(error)}`, error);
  if (busy.has(code)) {
    return new StoreError('busy', `${name} is held up by other changes. Try again.`, error);
  }
  const way = unreachable[code] ?? (isLostWay(code, error) ? 'does not answer' : undefined);
  if (way === undefined) return error;
  const advice = 'See that the server runs and can be reached from here, or choose another database.';
  return new StoreError('unreachable', `${name} ${way} (${messageOf(error)}). ${advice}`, error);
}

type Explain = (error: Error) => string;

const tls: Explain = (error) =>
  `cannot be trusted: ${messageOf(error)}. Name the authority's certificate with sslrootcert, or choose another sslmode.`;

const wrongPassword: Explain = (error) =>
  `does not let this user in: ${messageOf(error)}. Give the right user and password, in the address or as PGPASSWORD, or allow it in pg_hba.conf.`;

const refusals: Readonly<Record<string, Explain>> = {
  '28P01': wrongPassword,
  '28000': wrongPassword,
  '3D000': () => 'does not exist. Make it, as with createdb, or choose another.',
  '3F000': () => 'has no schema to make tables in. Make the one that search_path names.',
  '42501': (error) => `may not be used so: ${messageOf(error)}. Grant this user all on its schema.`,
  '25006': () => 'may only be read: it is a standby, or set so. Give the address of the primary.',
  '53100': () => 'cannot grow: its disk is full. Make room there.',
};

/** Deadlocks and lock timeouts. */
const busy: ReadonlySet<string> = new Set(['40001', '40P01', '55P03', '57014']);

const unreachable: Readonly<Record<string, string>> = {
  '53300': 'has too many connections',
  '57P01': 'is shutting down',
  '57P02': 'has crashed',
  '57P03': 'is starting up or shutting down',
  ENOTFOUND: 'names a host that is not known',
  ENOENT: 'has no socket there',
  ECONNREFUSED: 'does not answer',
};

const NETWORK_CODES =
  /^(08...|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EHOSTDOWN|ENETDOWN|ECONNRESET|ECONNABORTED|EPIPE|EACCES)$/;

/** The library gives no code where a connection ends or a statement times out. */
const LOST_WORDS = /connection (was )?(terminated|ended)|timeout|not queryable|cannot use a pool after/i;

function isLostWay(code: string, error: Error): boolean {
  return NETWORK_CODES.test(code) || (code === '' && LOST_WORDS.test(error.message));
}

/** Failures that the library reports by message alone. */
function spoken(code: string, { message }: Error): Explain | undefined {
  if (/^(ERR_TLS_|ERR_SSL_|CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|HOSTNAME_)/.test(code)) return tls;
  if (code !== '') return undefined;
  if (/does not support SSL/.test(message))
    return () => 'speaks no TLS. Turn it on there, or say sslmode=disable.';
  return /^SASL/.test(message) ? wrongPassword : undefined;
}

interface UniqueIndex {
  readonly name: string;
  readonly table: string;
  readonly column: string;
}

export function violates(error: unknown, { name, table, column }: UniqueIndex): boolean {
  if (!(error instanceof Error && 'code' in error)) return false;
  // SQLite names the column, Postgres the index.
  if (error.code === 'SQLITE_CONSTRAINT_UNIQUE') return error.message.includes(`${table}.${column}`);
  return error.code === '23505' && 'constraint' in error && error.constraint === name;
}
