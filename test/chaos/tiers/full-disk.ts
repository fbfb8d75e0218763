// Loaded before the server's own code (`node --import`): while a file says so, the disk of KV blocks is full. Either the system tells
// so when it is asked for room, or a write breaks off in its midst, as one that others were sooner than.

import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

/** Path of the file that says how; there is room where it is absent. */
export const FULL_DISK_FILE = 'CHAOS_FULL_DISK_FILE';
export type FullDisk = 'no room' | 'broken writes';

const path = process.env[FULL_DISK_FILE];
if (path !== undefined) install(path);

function install(path: string): void {
  const { statfsSync, writevSync } = fs;
  const state = (): string => {
    try {
      return fs.readFileSync(path, 'utf8');
    } catch {
      return '';
    }
  };
  fs.statfsSync = ((folder: string) => {
    const room = statfsSync(folder);
    if (state() === 'no room') room.bavail = 0;
    return room;
  }) as typeof statfsSync;
  fs.writevSync = (file, parts, position) => {
    if (state() !== 'broken writes') return writevSync(file, parts, position);
    const bytes = parts.map(
      ({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength),
    );
    const first = bytes[0] ?? new Uint8Array(0);
    writevSync(file, [first.subarray(0, first.length >> 1)], position);
    throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
  };
  syncBuiltinESMExports();
}
