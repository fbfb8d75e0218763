// Layers of every make on a GPU, few models with much in each: against the reference backend, and alone against batches.

import { it } from 'vitest';
import type { AttentionSpec, ModelSpec, PartSpec } from '../../src/model/spec.ts';
import { gpuBackends } from '../support/gpu-backend.ts';
import { expectPromises } from '../support/gpu-promises.ts';
import { describeOnFastestGpu } from '../support/on-gpu.ts';
import { type TinyModelOptions, tinyModel } from '../support/tiny-model.ts';

const sizes: TinyModelOptions = {
  hiddenSize: 32,
  headCount: 4,
  kvHeadCount: 2,
  headSize: 8,
  ffnSize: 36,
  vocabSize: 64,
};

/** Changes every part of every layer. */
function eachPart(spec: ModelSpec, change: (part: PartSpec, layer: number) => PartSpec): ModelSpec {
  return {
    ...spec,
    layers: spec.layers.map(({ branches }, layer) => ({
      branches: branches.map((branch) => ({
        ...branch,
        parts: branch.parts.map((part) => change(part, layer)),
      })),
    })),
  };
}

function eachAttention(
  spec: ModelSpec,
  change: (one: AttentionSpec, layer: number) => AttentionSpec,
): ModelSpec {
  return eachPart(spec, (part, layer) =>
    part.body.kind === 'attention' ? { ...part, body: change(part.body, layer) } : part,
  );
}

describeOnFastestGpu('a model on a GPU', () => {
  const backends = gpuBackends();

  it('may gather attention and feed-forward in one branch, with norms, gates, sinks and growth', async () => {
    const model = tinyModel({
      ...sizes,
      parallel: true,
      layerNorms: true,
      biases: true,
      residualScale: 0.7,
      logitScale: 0.25,
      someUnrotated: true,
      queryKeyNorm: 'all',
      normsAfterRope: true,
      rotatedValues: 4,
      sinks: true,
      attentionGate: true,
      growth: { weight: 0.3, length: 20, shift: 1 },
      activation: 'gelu',
      ungated: true,
    });
    await expectPromises(backends, model, 'f16');
  });

  it('may have attentions of several shapes, values that are keys, and norms behind each part', async () => {
    const model = tinyModel({
      ...sizes,
      layerCount: 3,
      valuesAreKeys: true,
      queryKeyNorm: true,
      preNorms: false,
      postNorms: true,
      residualScale: 0.5,
      activation: { limit: 0.8, slope: 1.7 },
      window: 20,
      attentionSoftcap: 5,
      sinks: true,
    });
    const { caches } = model.spec;
    // Heads twice as many and half as large in the second layer, out of the same tensors.
    const reshaped = eachAttention(model.spec, (attention, layer) => {
      if (layer !== 1) return attention;
      const { queryNorm: _, sinks: __, stored, rope: ___, ...rest } = attention;
      const { keyNorm: ____, ...kept } = stored ?? { key: rest.query };
      return { ...rest, headCount: 8, headSize: 4, stored: kept };
    });
    const normed = eachPart(reshaped, (part, layer) => ({
      ...part,
      output: { kind: layer === 0 ? 'layer' : 'rms', weight: 'final.norm' },
    }));
    const spec = {
      ...normed,
      caches: caches.map((cache, index) => (index === 1 ? { headCount: 4, headSize: 4 } : cache)),
    };
    await expectPromises(backends, { ...model, spec }, 'f16');
  });

  it('may read in one layer what another has stored, with norms over all heads', async () => {
    const model = tinyModel({
      ...sizes,
      hiddenSize: 64,
      headSize: 16,
      ffnSize: 64,
      type: 'Q8_0',
      queryKeyNorm: 'all',
      activation: 'gelu-tanh',
      fused: true,
      attentionGate: true,
    });
    const spec = eachAttention(model.spec, (attention, layer) => {
      if (layer === 0) return attention;
      const { stored: _, ...rest } = attention;
      return { ...rest, cache: 0 };
    });
    await expectPromises(backends, { ...model, spec }, 'q8');
  });
});
