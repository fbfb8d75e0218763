// Chairlift's logits after every token of a text, without an engine: one sequence, straight through a backend.

import { BLOCK_TOKENS } from '../dist/compute/backend.js';
import { buildBatch } from '../dist/compute/batch.js';
import { ownSlot } from '../dist/compute/batch-states.js';
import { chooseBackend } from '../dist/compute/choose-backend.js';
import { buildSpec } from '../dist/model/build-spec.js';
import { openModelFiles } from '../dist/weights/open-model.js';

/**
 * @typedef {object} LogitSource
 * @property {(tokens: readonly number[], start: number) => Promise<Float32Array[]>} logitsAfter each of the tokens, which
 * stand behind those of earlier calls; from 0 on another text begins
 * @property {() => Promise<void>} close
 */

/** Rounded up to whole blocks: both engines get the same context length. */
export function contextOf(tokens) {
  return BLOCK_TOKENS * Math.ceil(tokens / BLOCK_TOKENS);
}

/**
 * @param {string} path
 * @param {{ backend: import('../dist/compute/backend.js').BackendName, threads: number, contextTokens: number,
 *   kvType?: import('../dist/compute/backend.js').KvType }} options
 * @returns {Promise<LogitSource>}
 */
export async function openOwnLogits(path, { backend: name, threads, contextTokens, kvType = 'f16' }) {
  const files = openModelFiles(path);
  // Some models choose rotary factors by the context length.
  const spec = buildSpec(files, { contextLength: contextTokens });
  const blockCount = contextTokens / BLOCK_TOKENS;
  const blocks = Array.from({ length: blockCount }, (_, block) => block);
  const { create } = chooseBackend(name, { threads, kvType });
  const backend = await create(spec, files.weights, { blockCount, stateSlots: 1 });
  files.weights.close();
  return {
    async logitsAfter(tokens, start) {
      const sequence = { tokens, start, blocks, wantLogits: /** @type {const} */ ('all') };
      const state = spec.recurrentStates.length === 0 ? {} : { state: ownSlot(sequence, 0) };
      const { logits } = await backend.step(buildBatch([{ ...sequence, ...state }]));
      return tokens.map((_, row) => logits.slice(row * spec.vocabSize, (row + 1) * spec.vocabSize));
    },
    async close() {
      backend.close();
    },
  };
}
