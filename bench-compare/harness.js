// What the programs here share: options, tables, the end of child processes, and who else used the machine.

import { constants, cpus } from 'node:os';

/**
 * @param {string} line
 * @returns {never}
 */
export function give(line) {
  process.stderr.write(`${line}\n`);
  process.exit(1);
}

/**
 * The number that an option gives.
 *
 * @param {string} name
 * @param {string | undefined} text
 * @param {number} least
 */
export function count(name, text, least = 1) {
  const value = Number(text);
  return Number.isInteger(value) && value >= least
    ? value
    : give(`--${name}: give a whole number from ${least} on`);
}

/** @param {readonly (readonly string[])[]} rows all of one length */
export function alignedTable(rows) {
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  return rows
    .map((row) =>
      row
        .map((cell, column) => (column === 0 ? cell.padEnd(widths[0]) : cell.padStart(widths[column])))
        .join('  '),
    )
    .join('\n');
}

const SIGNALS = /** @type {const} */ (['SIGHUP', 'SIGINT', 'SIGTERM']);

/**
 * @param {() => void} endChildren
 * @returns {() => void} lets signals do what they did before
 */
export function beforeEnd(endChildren) {
  /** @param {NodeJS.Signals} signal */
  const end = (signal) => {
    endChildren();
    process.exit(128 + constants.signals[signal]);
  };
  for (const signal of SIGNALS) process.once(signal, end);
  return () => {
    for (const signal of SIGNALS) process.off(signal, end);
  };
}

/** More than a system's own housekeeping. */
export const DISTURBED = 0.1;

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

export function ownSeconds() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}
