// llama.cpp through node-llama-cpp, on the processor: a model and a context, and no word but of errors.

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
