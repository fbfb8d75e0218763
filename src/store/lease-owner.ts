// Who holds leases: one server of one process. Its name is no other's, and is never used again; a process of this machine that
// is gone can be told by it, so that nobody waits for its leases to end.

import { randomBytes } from 'node:crypto';
import { readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** Of this process: its number may be that of one that is gone. */
const processMark = randomBytes(6).toString('hex');

/** Numbers of processes mean something within it: containers of one machine may share its name, not its processes. */
const home = `${hostname()}/${processNamespace()}`;

export function newLeaseOwner(): string {
  return [home, process.pid, processMark, randomBytes(4).toString('hex')].join(':');
}

/** False where it cannot be known: another machine's, for example. */
export function isGone(owner: string): boolean {
  const [host, pid, mark] = owner.split(':');
  if (host !== home || mark === undefined || mark === processMark) return false;
  return Number(pid) === process.pid || !isRunning(Number(pid));
}

/** Empty where the system has none. */
function processNamespace(): string {
  try {
    return readlinkSync('/proc/self/ns/pid').replace(/\D/g, '');
  } catch {
    return '';
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // Others' processes may not be signalled.
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}
