// Which C library this process runs on, as far as it matters to what was compiled elsewhere.

import { existsSync, readFileSync } from 'node:fs';

/** Whether it is musl, as on Alpine. `maps` lists the files in the process. */
export function runsOnMusl(maps = '/proc/self/maps'): boolean {
  return existsSync(maps) && readFileSync(maps, 'latin1').includes('/ld-musl-');
}
