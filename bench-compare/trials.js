// Runs trials in processes of their own. One that fails, or during which others used the machine, gets a second chance.

import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { beforeEnd, DISTURBED, machineSeconds, othersShareSince } from './harness.js';

const program = fileURLToPath(new URL('trial.js', import.meta.url));

/**
 * @typedef {object} Trial what trial.js says in its last line, and how quiet the machine was
 * @property {string} engine
 * @property {string} version
 * @property {string} build
 * @property {number} streams
 * @property {number} promptTokens
 * @property {number} answerTokens
 * @property {number} prefillTokensPerSecond
 * @property {number} [decodeTokensPerSecond]
 * @property {number[]} tokens
 * @property {number} cpuSeconds
 * @property {number} othersShare
 * @property {boolean} disturbed
 */

/**
 * @typedef {{ ok: true, trial: Trial } | { ok: false, timedOut: boolean, reason: string }} TrialResult
 */

/**
 * @param {Readonly<Record<string, string | number>>} flags
 * @param {number} timeoutSeconds
 * @returns {Promise<TrialResult>}
 */
export async function runTrial(flags, timeoutSeconds) {
  const first = await runOnce(flags, timeoutSeconds);
  // A timeout is not repeated.
  if (first.ok ? !first.trial.disturbed : first.timedOut) return first;
  const second = await runOnce(flags, timeoutSeconds);
  return first.ok && !second.ok ? first : second;
}

/**
 * @param {Readonly<Record<string, string | number>>} flags
 * @param {number} timeoutSeconds
 * @returns {Promise<TrialResult>}
 */
function runOnce(flags, timeoutSeconds) {
  const args = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, String(value)]);
  // A group of its own, so that a Python program ends with the trial that started it.
  const child = spawn(process.execPath, [program, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  const endGroup = () => {
    try {
      process.kill(-(/** @type {number} */ (child.pid)), 'SIGKILL');
    } catch {}
  };
  const forget = beforeEnd(endGroup);
  const before = machineSeconds();
  let output = '';
  let errors = '';
  let timedOut = false;
  child.stdout.setEncoding('utf8').on('data', (text) => {
    output += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text) => {
    errors = (errors + text).slice(-10_000);
  });
  const timer = setTimeout(() => {
    timedOut = true;
    endGroup();
  }, timeoutSeconds * 1000);
  return new Promise((resolve) => {
    child.once('close', (code, signal) => {
      clearTimeout(timer);
      forget();
      if (timedOut) resolve({ ok: false, timedOut, reason: `no result within ${timeoutSeconds} s` });
      else if (code === 0) resolve({ ok: true, trial: judged(output, before) });
      else resolve({ ok: false, timedOut, reason: `${lastWord(errors)} (ended with ${signal ?? code})` });
    });
  });
}

/** With the share of the machine that others used meanwhile. */
function judged(output, before) {
  const trial = JSON.parse(output.trim().split('\n').at(-1) ?? '');
  const othersShare = othersShareSince(before, trial.cpuSeconds);
  return { ...trial, othersShare, disturbed: othersShare > DISTURBED };
}

/** The line that names the error, not its stack. */
function lastWord(errors) {
  const lines = errors.split('\n').map((line) => line.trim());
  return (
    lines.findLast((line) => /^\w*Error\b/.test(line)) ?? lines.findLast((line) => line !== '') ?? 'no word'
  );
}
