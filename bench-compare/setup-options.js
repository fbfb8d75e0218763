// Options of the comparisons in which servers meet: those that say how each server is started.

import { availableParallelism } from 'node:os';
import { resolve } from 'node:path';
import { count, give } from './harness.js';
import { findLlamaServer } from './llama-server.js';

/** @param {{ readonly context: string, readonly rounds: string }} defaults */
export function setupOptions({ context, rounds }) {
  return /** @type {const} */ ({
    context: { type: 'string', multiple: false, default: context },
    rounds: { type: 'string', multiple: false, default: rounds },
    threads: { type: 'string', multiple: false, default: String(availableParallelism()) },
    'llama-server': { type: 'string', multiple: false },
  });
}

/**
 * @typedef {object} SetupValues
 * @property {string} context
 * @property {string} threads
 * @property {string} [llama-server]
 * @property {string} [slots] one where absent
 */

/**
 * @param {string} path
 * @param {SetupValues} values
 */
export function setupOf(path, { context, threads, slots = '1', 'llama-server': llamaServer }) {
  return {
    path: resolve(path),
    threads: count('threads', threads),
    slots: count('slots', slots),
    contextTokens: count('context', context),
    llamaServer: findLlamaServer(llamaServer),
  };
}

/** @param {readonly string[]} positionals */
export function oneFile([path, ...others]) {
  return path === undefined || others.length > 0 ? give('give one GGUF file') : path;
}
