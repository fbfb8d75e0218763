// The servers that meet under load: how each is started on a file, and when it is ready.

import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { beforeEnd } from './harness.js';

const chairliftProgram = fileURLToPath(new URL('../bin/chairlift.js', import.meta.url));
const START_SECONDS = 120;
/** Linux counts processor time in these. */
const TICKS_A_SECOND = 100;

/**
 * @typedef {object} Setup
 * @property {string} path the GGUF file
 * @property {number} threads
 * @property {number} slots answers that llama-server computes at once
 * @property {number} contextTokens of one request
 * @property {string} llamaServer its program
 * @property {string} [projector] the GGUF file of the vision tower
 * @property {string} [kept] a folder for KV that outlives the server
 */

/** @typedef {(setup: Setup, port: number, folder: string) => readonly [program: string, ...args: string[]]} Command */

/** @type {Readonly<Record<string, { readonly label: string, readonly command: Command }>>} */
export const servers = {
  chairlift: {
    label: 'Chairlift',
    command: ({ path, projector, kept, threads, contextTokens }, port, folder) => [
      process.execPath,
      chairliftProgram,
      'serve',
      path,
      ...(projector === undefined ? [] : ['--mmproj', projector]),
      ...(kept === undefined ? [] : ['--cache-disk', kept]),
      ...['--backend', 'cpu', '--threads', String(threads), '--context', String(contextTokens)],
      ...['--port', String(port), '--database', join(folder, 'chairlift.db'), '--log-level', 'warn'],
    ],
  },
  'llama-server': {
    label: 'llama-server',
    command: ({ path, projector, kept, threads, slots, contextTokens, llamaServer }, port) => [
      llamaServer,
      ...(projector === undefined ? [] : ['--mmproj', projector]),
      ...(kept === undefined ? [] : ['--slot-save-path', kept]),
      ...['--model', path, '--threads', String(threads), '--threads-batch', String(threads)],
      ...['--parallel', String(slots), '--ctx-size', String(slots * contextTokens)],
      ...['--host', '127.0.0.1', '--port', String(port), '--no-webui'],
    ],
  },
};

/**
 * @param {string} name of `servers`
 * @param {Setup} setup
 */
export async function startServer(name, setup) {
  const folder = mkdtempSync(join(tmpdir(), 'chairlift-compare-'));
  const port = await freePort();
  const [program, ...args] = servers[name].command(setup, port, folder);
  // A group of its own: a server may have processes.
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      said = (said + text).slice(-2000);
    });
  }
  const pid = /** @type {number} */ (child.pid);
  const ended = new Promise((resolve) => child.once('close', resolve));
  const kill = () => {
    try {
      process.kill(-pid, 'SIGKILL');
    } catch {}
  };
  const forget = beforeEnd(kill);
  const stop = async () => {
    kill();
    await ended;
    forget();
    rmSync(folder, { recursive: true, force: true });
  };
  const url = `http://127.0.0.1:${port}`;
  const lastLines = () => said.trim().split('\n').slice(-3).join(' | ');
  for (let waited = 0; !(await isReady(url)); waited += 0.1) {
    if (child.exitCode !== null || child.signalCode !== null || waited > START_SECONDS) {
      await stop();
      throw new Error(`${servers[name].label} did not start: ${lastLines()}`);
    }
    await sleep(100);
  }
  return {
    url,
    stop,
    /** As a user ends it, with time to write. */
    end: async () => {
      process.kill(pid, 'SIGTERM');
      await ended;
      await stop();
    },
    cpuSeconds: () => treeSeconds(pid),
    hasEnded: () => child.exitCode ?? child.signalCode,
    lastLines,
  };
}

async function isReady(url) {
  try {
    return (await fetch(`${url}/health`)).ok;
  } catch {
    return false;
  }
}

/** @returns {Promise<number>} */
async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Processor seconds of a process and of those below it, where the system tells: an engine is in a group of its own. */
function treeSeconds(root) {
  if (process.platform !== 'linux') return undefined;
  const all = new Map();
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
        .replace(/^.*\) /s, '')
        .split(' ');
      all.set(Number(pid), { parent: Number(fields[1]), ticks: Number(fields[11]) + Number(fields[12]) });
    } catch {}
  }
  const isBelow = (pid) => pid === root || (all.has(pid) && isBelow(all.get(pid).parent));
  const ticks = [...all].reduce((sum, [pid, one]) => sum + (isBelow(pid) ? one.ticks : 0), 0);
  return ticks / TICKS_A_SECOND;
}
