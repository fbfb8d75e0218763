// One GGUF file through llama.cpp and through Chairlift, as `second-opinion.js` wants it: in a process of its own, which
// llama.cpp ends where it finds a fault. Gives one message.

import { BLOCK_TOKENS } from '../dist/compute/backend.js';
import { buildBatch } from '../dist/compute/batch.js';
import { ownSlot } from '../dist/compute/batch-memories.js';
import { chooseBackend } from '../dist/compute/choose-backend.js';
import { buildSpec } from '../dist/model/build-spec.js';
import { openModelFiles } from '../dist/weights/open-model.js';
import { difference, opinionOf } from './opinions.js';

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
  const files = openModelFiles(question.path);
  const { vocabSize } = buildSpec(files);
  const prompt = question.ids ?? idsWithin(vocabSize, question.promptTokens);
  // Both are told the same length: some models choose rotary factors by it.
  const contextTokens = BLOCK_TOKENS * Math.ceil((prompt.length + question.answerTokens) / BLOCK_TOKENS);
  const own = await ownOpinion(files, prompt, contextTokens, question);
  files.weights.close();
  const { opinion: peer, version } = await peerOpinion(prompt, contextTokens, question);
  return {
    architecture: files.format === 'gguf' ? String(files.metadata.get('general.architecture')) : '',
    promptTokens: prompt.length,
    peerAnswer: peer.tokens.slice(prompt.length),
    ownAnswer: own.tokens.slice(prompt.length),
    difference: difference(peer, own),
    peerVersion: version,
  };
}

function idsWithin(vocabSize, count) {
  return Array.from({ length: count }, (_, position) => (104729 * (position + 1)) % vocabSize);
}

async function ownOpinion(files, prompt, contextLength, { answerTokens, backend: name, threads }) {
  const spec = buildSpec(files, { contextLength });
  const blockCount = contextLength / BLOCK_TOKENS;
  const blocks = Array.from({ length: blockCount }, (_, block) => block);
  const choice = chooseBackend(name, { threads });
  const backend = await choice.create(spec, files.weights, { blockCount, memorySlots: 1 });
  try {
    return await opinionOf(prompt, answerTokens, async (tokens, start) => {
      const sequence = { tokens, start, blocks, wantLogits: /** @type {const} */ ('all') };
      const memory = spec.memories.length === 0 ? {} : { memory: ownSlot(sequence, 0) };
      const { logits } = await backend.step(buildBatch([{ ...sequence, ...memory }]));
      return tokens.map((_, row) => logits.slice(row * spec.vocabSize, (row + 1) * spec.vocabSize));
    });
  } finally {
    backend.close();
  }
}

async function peerOpinion(prompt, contextSize, { peerPath, answerTokens, threads }) {
  const { getLlama } = await import('node-llama-cpp');
  /** @type {string[]} */
  const complaints = [];
  const llama = await getLlama({
    gpu: false,
    build: 'never',
    skipDownload: true,
    maxThreads: threads,
    logger: (level, message) => {
      if (level === 'error' || level === 'fatal') complaints.push(message.trim());
    },
  });
  try {
    const model = await llama.loadModel({ modelPath: peerPath, gpuLayers: 0 });
    const context = await model.createContext({
      contextSize,
      batchSize: contextSize,
      threads: { ideal: threads, min: threads },
      flashAttention: false,
      experimentalKvCacheKeyType: 'F32',
      experimentalKvCacheValueType: 'F32',
    });
    const sequence = context.getSequence();
    const opinion = await opinionOf(prompt, answerTokens, async (tokens) => {
      const outputs = await sequence.controlledEvaluate(
        tokens.map((token) => [token, { generateNext: { logits: true } }]),
      );
      return outputs.map((output) => dense(output.next.logits));
    });
    return { opinion, version: llama.llamaCppRelease.release };
  } catch (error) {
    throw new Error(`llama.cpp: ${complaints.join('; ') || messageOf(error)}`);
  } finally {
    await llama.dispose();
  }
}

/** @param {ReadonlyMap<number, number>} byToken */
function dense(byToken) {
  const logits = new Float32Array(byToken.size);
  for (const [token, value] of byToken) logits[token] = value;
  return logits;
}

function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}
