// Names of lease owners: one per server of a process, never reused. A name tells whether its process on this machine
// is gone, so that nobody waits for its leases to expire.

import { randomBytes } from 'node:crypto';
import { readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** Tells this process from an earlier one with the same number. */
const processMark = randomBytes(6).toString('hex');

/** Containers may share a host name but not process numbers. */
const home = `${hostname()}/${processNamespace()}`;

export function newLeaseOwner(): string {
  return [home, process.pid, processMark, randomBytes(4).toString('hex')].join(':');
}

/** False where it cannot be known, as for other machines. */
export function isGone(owner: string): boolean {
  const [host, pid, mark] = owner.split(':');
  if (host !== home || mark === undefined || mark === processMark) return false;
  return Number(pid) === process.pid || !isRunning(Number(pid));
}

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
    // Processes of other users may not be signalled.
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}
