// Another process that holds the database, as a backup or a forgotten shell would: nothing can be written meanwhile.

import { setTimeout as sleep } from 'node:timers/promises';
import Libsql from 'libsql';

const TRIES = 100;

/** Holds the database while `during` goes on. False where it could not be had. */
export async function whileLocked(path: string, during: () => Promise<void>): Promise<boolean> {
  const handle = new Libsql(path);
  try {
    if (!(await locked(handle))) return false;
    await during();
    handle.exec('rollback');
    return true;
  } finally {
    handle.close();
  }
}

/** Asks again and again rather than waiting inside SQLite, which would hold up this whole process. */
async function locked(handle: Libsql.Database): Promise<boolean> {
  for (let tried = 0; tried < TRIES; tried++) {
    try {
      handle.exec('begin exclusive');
      return true;
    } catch {
      await sleep(10);
    }
  }
  return false;
}
