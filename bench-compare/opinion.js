// One GGUF file through llama.cpp and Chairlift, for `second-opinion.js`, in a process of its own, since llama.cpp may abort.
// Sends one message.

import { buildSpec } from '../dist/model/build-spec.js';
import { openModelFiles } from '../dist/weights/open-model.js';
import { difference, opinionOf } from './distributions.js';
import { openLlamaLogits } from './llama.js';
import { contextOf, openOwnLogits } from './own-logits.js';

/** So that nothing but the computation differs. */
const EXACT = {
  flashAttention: false,
  experimentalKvCacheKeyType: 'F32',
  experimentalKvCacheValueType: 'F32',
};

/**
 * @typedef {object} Question
 * @property {string} path for Chairlift
 * @property {string} peerPath the same model for llama.cpp
 * @property {number[]} [ids] of the prompt; some of the vocabulary unless given
 * @property {number} promptTokens where ids are not given
 * @property {number} answerTokens
 * @property {import('../dist/compute/backend.js').BackendName} backend
 * @property {number} threads
 */

/**
 * @typedef {object} Verdict
 * @property {string} architecture
 * @property {number} promptTokens
 * @property {number[]} peerAnswer
 * @property {number[]} ownAnswer
 * @property {number} difference of log-probabilities, at most
 * @property {string} peerVersion
 */

process.once('message', async (/** @type {Question} */ question) => {
  try {
    process.send?.({ verdict: await askBoth(question) });
  } catch (error) {
    process.send?.({ fault: messageOf(error) });
  }
  process.disconnect();
});

/**
 * @param {Question} question
 * @returns {Promise<Verdict>}
 */
async function askBoth(question) {
  const { path, peerPath, answerTokens, backend, threads } = question;
  const files = openModelFiles(path);
  const { vocabSize } = buildSpec(files);
  files.weights.close();
  const prompt = question.ids ?? idsWithin(vocabSize, question.promptTokens);
  const contextTokens = contextOf(prompt.length + answerTokens);
  const own = await opinionThrough(
    await openOwnLogits(path, { backend, threads, contextTokens }),
    prompt,
    answerTokens,
  );
  const llama = await openLlamaLogits(peerPath, { threads, contextTokens, context: EXACT });
  const peer = await opinionThrough(llama, prompt, answerTokens);
  return {
    architecture: files.format === 'gguf' ? String(files.metadata.get('general.architecture')) : '',
    promptTokens: prompt.length,
    peerAnswer: peer.tokens.slice(prompt.length),
    ownAnswer: own.tokens.slice(prompt.length),
    difference: difference(peer, own),
    peerVersion: llama.version,
  };
}

function idsWithin(vocabSize, count) {
  return Array.from({ length: count }, (_, position) => (104729 * (position + 1)) % vocabSize);
}

/** @param {import('./own-logits.js').LogitSource} source */
async function opinionThrough(source, prompt, answerTokens) {
  try {
    return await opinionOf(prompt, answerTokens, source.logitsAfter);
  } finally {
    await source.close();
  }
}

function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}
