// Who used the machine while something was measured.

import { cpus } from 'node:os';

/** Share of the machine that others may use: more is more than a system's own housekeeping. */
export const DISTURBED = 0.1;

/** What all cores together have spent so far. */
export function machineSeconds() {
  const times = cpus().map((cpu) => cpu.times);
  const sum = (of) => times.reduce((total, one) => total + of(one), 0) / 1000;
  const total = sum((one) => Object.values(one).reduce((a, b) => a + b, 0));
  return { total, busy: total - sum(({ idle }) => idle) };
}

/**
 * The share of the machine that others used since then, beside the one who used so many seconds of its cores.
 *
 * @param {ReturnType<typeof machineSeconds>} before
 * @param {number} ownSeconds
 */
export function othersShareSince(before, ownSeconds) {
  const after = machineSeconds();
  return Math.max(0, (after.busy - before.busy - ownSeconds) / (after.total - before.total));
}

/** What this process and its threads have spent so far. */
export function ownSeconds() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}
