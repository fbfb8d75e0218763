// llama.cpp in Node: node-llama-cpp's own build for this kind of CPU. All sequences belong to one context, which
// batches whatever they wait for.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { openLlamaContext } from '../llama.js';

/** @type {import('../engine.js').Engine} */
export const nodeLlamaCpp = {
  label: 'llama.cpp (node-llama-cpp)',

  missing() {
    try {
      import.meta.resolve('node-llama-cpp');
      return undefined;
    } catch {
      return 'not installed; run npm install --prefix bench-compare --ignore-scripts';
    }
  },

  async run({ modelPath, threads, streams, contextTokens }, rounds) {
    const setup = { modelPath, threads, contextTokens, sequences: streams };
    const { llama, context } = await openLlamaContext(setup);
    const sequences = Array.from({ length: streams }, () => context.getSequence());
    try {
      const timings = [];
      for (const round of rounds) timings.push(await answers(sequences, round));
      return { version: versionOf(llama), build: llama.systemInfo.trim(), timings };
    } finally {
      await llama.dispose();
    }
  },
};

function versionOf(llama) {
  const path = fileURLToPath(new URL('../package.json', import.meta.resolve('node-llama-cpp')));
  const { version } = JSON.parse(readFileSync(path, 'utf8'));
  return `${version}, llama.cpp ${llama.llamaCppRelease.release}, ${llama.buildType}`;
}

/**
 * @param {readonly import('node-llama-cpp').LlamaContextSequence[]} sequences
 * @param {import('../engine.js').Round} round
 * @returns {Promise<import('../engine.js').Timing>}
 */
async function answers(sequences, { prompts, answerTokens }) {
  for (const sequence of sequences) await sequence.clearHistory();
  const startedMs = performance.now();
  const streams = sequences.map((sequence, index) => ({
    answer: sequence.evaluate([...prompts[index]], { temperature: 0, yieldEogToken: true }),
    times: /** @type {number[]} */ ([]),
    tokens: /** @type {number[]} */ ([]),
  }));
  // All ask for their next token at once. Left to run freely, each sequence asks as soon as it has its token, and the
  // context decodes several small batches instead of one.
  for (let step = 0; step < answerTokens; step++) {
    await Promise.all(
      streams.map(async ({ answer, times, tokens }) => {
        const { value: token } = await answer.next();
        // An answer that ends early lacks tokens, which the trial reports.
        if (typeof token !== 'number') return;
        times.push(performance.now());
        tokens.push(token);
      }),
    );
  }
  for (const { answer } of streams) await answer.return();
  return { startedMs, tokenMs: streams.map(({ times }) => times), tokens: streams[0].tokens };
}
