// From the failures of the SQL library to errors that say what to do.

import { StoreError } from './store-error.ts';

/** The StoreError for what people can mend; anything else comes back as it is. */
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
      return unreachable(path, 'cannot grow: the disk is full', error);
    case 'SQLITE_READONLY':
    case 'EROFS':
    case 'EACCES':
    case 'EPERM':
      return unreachable(path, 'may not be written by this user', error);
    case 'ENOTDIR':
    case 'EEXIST':
      return unreachable(path, 'lies under something that is no folder', error);
    case 'SQLITE_IOERR':
    case 'SQLITE_CANTOPEN':
      return unreachable(path, 'cannot be read and written as a file', error);
    default:
      return isSystemError(error) ? unreachable(path, `cannot be opened (${error.message})`, error) : error;
  }
}

/** A folder or a file that the system does not give, for whatever reason. */
function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'syscall' in error;
}

function unreachable(path: string, problem: string, cause: unknown): StoreError {
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
