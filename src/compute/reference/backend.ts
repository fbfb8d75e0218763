// The reference backend: plain TypeScript in float32, the oracle for tests and the fallback where no compiler
// exists. It favours being read over being fast. Keys and values are kept in float32.

import { sampleRows } from '../../sampling/sampler.ts';
import type { Backend, CreateBackend } from '../backend.ts';
import { checkBatch } from '../batch.ts';
import { forward } from './forward.ts';
import { createKvLayer, type KvLayer } from './kv-cache.ts';
import { loadModelWeights, type ModelWeights } from './weights.ts';

interface OpenModel {
  readonly weights: ModelWeights;
  readonly cache: readonly KvLayer[];
}

export const createReferenceBackend: CreateBackend = async (spec, source, options) => {
  const { blockCount } = options;
  const { vocabSize, contextLength } = spec;
  let open: OpenModel | undefined = {
    weights: loadModelWeights(spec, source, options.onProgress ?? (() => {})),
    cache: spec.layers.map(() => createKvLayer(blockCount, spec.kvHeadCount * spec.headSize)),
  };
  const opened = (): OpenModel => {
    if (open === undefined) throw new Error('the backend is closed');
    return open;
  };
  return {
    name: 'reference',
    blockCount,
    async step(batch) {
      // Whoever awaits steps in a row must still hear signals and messages between them.
      await new Promise<void>((resolve) => setImmediate(resolve));
      const { weights, cache } = opened();
      checkBatch(batch, { blockCount, vocabSize, contextLength });
      return { logits: forward(spec, weights, cache, batch) };
    },
    sampleRows,
    close() {
      open = undefined;
    },
  } satisfies Backend;
};
