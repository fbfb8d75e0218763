// llama.cpp through node-llama-cpp, on the CPU: contexts, and logits after every token of a text.

import { STEP_TOKENS } from './engine.js';

/**
 * @param {{ modelPath: string, threads: number, contextTokens: number, sequences?: number }} setup
 */
export async function openLlamaContext({ modelPath, threads, contextTokens, sequences = 1 }) {
  const { getLlama, LlamaLogLevel } = await import('node-llama-cpp');
  const llama = await getLlama({
    gpu: false,
    build: 'never',
    skipDownload: true,
    maxThreads: threads,
    logLevel: LlamaLogLevel.error,
  });
  const model = await llama.loadModel({ modelPath, gpuLayers: 0 });
  const context = await model.createContext({
    sequences,
    contextSize: contextTokens,
    batchSize: STEP_TOKENS,
    threads: { ideal: threads, min: threads },
  });
  return { llama, context };
}

/** Logits come as a map of the whole vocabulary for each token: more at once would fill the memory. */
const TOKENS_AT_ONCE = 64;

/**
 * @typedef {object} LlamaOptions
 * @property {number} threads
 * @property {number} contextTokens
 * @property {object} [context] further options of the context
 */

/**
 * @param {string} path
 * @param {LlamaOptions} options
 * @returns {Promise<import('./own-logits.js').LogitSource & { readonly version: string }>}
 */
export async function openLlamaLogits(path, { threads, contextTokens, context: further = {} }) {
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
  const orComplain = async (work) => {
    try {
      return await work();
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      throw new Error(`llama.cpp: ${complaints.join('; ') || message}`);
    }
  };
  try {
    const sequence = await orComplain(async () => {
      const model = await llama.loadModel({ modelPath: path, gpuLayers: 0 });
      const context = await model.createContext({
        contextSize: contextTokens,
        batchSize: contextTokens,
        threads: { ideal: threads, min: threads },
        ...further,
      });
      return context.getSequence();
    });
    return {
      version: llama.llamaCppRelease.release,
      logitsAfter: (tokens, start) =>
        orComplain(async () => {
          if (start === 0) await sequence.clearHistory();
          const rows = [];
          for (let from = 0; from < tokens.length; from += TOKENS_AT_ONCE) {
            rows.push(...(await rowsOf(sequence, tokens.slice(from, from + TOKENS_AT_ONCE))));
          }
          return rows;
        }),
      close: () => llama.dispose(),
    };
  } catch (error) {
    await llama.dispose();
    throw error;
  }
}

async function rowsOf(sequence, tokens) {
  const outputs = await sequence.controlledEvaluate(
    tokens.map((token) => [token, { generateNext: { logits: true } }]),
  );
  return outputs.map((output) => dense(output.next.logits));
}

/** @param {ReadonlyMap<number, number>} byToken */
function dense(byToken) {
  const logits = new Float32Array(byToken.size);
  for (const [token, value] of byToken) logits[token] = value;
  return logits;
}
