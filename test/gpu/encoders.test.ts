// Encoders on a GPU: the states of HF transformers, and the same bits alone and among others.

import { expect, it } from 'vitest';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import { cosine } from '../support/backend-properties.ts';
import { encoderModels, leastCosine } from '../support/encoder-models.ts';
import { asFolder } from '../support/formula-model.ts';
import { gpuBackends } from '../support/gpu-backend.ts';
import { describeOnFastestGpu } from '../support/on-gpu.ts';
import { thorough } from '../support/thorough.ts';
import { randomTokens, type TinyModelOptions, tinyModel } from '../support/tiny-model.ts';
import { statesTogether } from '../support/whole-texts.ts';

const sizes: TinyModelOptions = {
  bidirectional: true,
  hiddenSize: 32,
  headCount: 4,
  kvHeadCount: 2,
  headSize: 32,
  ffnSize: 64,
  vocabSize: 64,
};

describeOnFastestGpu('an encoder on a GPU', () => {
  const backends = gpuBackends();

  const models = Object.entries(encoderModels).filter(([name]) => thorough || !name.includes(' with '));

  it.each(models)('gives the states of HF transformers: %s', async (_, model) => {
    expect(await leastCosine(backends.create, model, asFolder(model))).toBeGreaterThan(0.9999);
  });

  it.each<readonly [string, TinyModelOptions]>([
    [
      'norms over the stream, added tables',
      {
        streamNorms: true,
        addedTables: true,
        layerNorms: true,
        preNorms: false,
        finalNorm: false,
        biases: true,
      },
    ],
    [
      'all norms at once, and a window',
      { streamNorms: true, postNorms: true, residualScale: 0.5, window: 40 },
    ],
    ['quantized', { type: 'Q8_0', addedTables: true, window: 7, sinks: true }],
  ])('gives the states of the reference backend, and their bits among others: %s', async (_, options) => {
    const model = tinyModel({ ...sizes, ...options });
    const { spec, weights } = model;
    const { hiddenSize, vocabSize } = spec;
    const blockCount = 32;
    const texts = [70, 3, 130, 33, 1].map((count) => randomTokens(count, vocabSize, count));
    const gpu = await backends.create(spec, weights, { blockCount });
    const reference = await createReferenceBackend(spec, weights, { blockCount });
    const together = await statesTogether(gpu, texts, hiddenSize);
    const expected = await statesTogether(reference, texts, hiddenSize);
    for (const [at, states] of together.entries()) {
      const [alone] = await statesTogether(gpu, [texts[at] as number[]], hiddenSize, at + 2);
      expect(alone).toEqual(states);
      const least = options.type === undefined ? 0.9999 : 0.999;
      expect(cosine(states, expected[at] as Float32Array)).toBeGreaterThan(least);
    }
    gpu.close();
  });
});
