// Layers of every make on a GPU, few models with much in each: against the reference backend, and alone against batches.

import { it } from 'vitest';
import type { AttentionSpec, MlaSpec, ModelSpec, PartSpec } from '../../src/model/spec.ts';
import { tableSpec } from '../../src/model/spec-parts.ts';
import { gpuBackends } from '../support/gpu-backend.ts';
import { expectPromises } from '../support/gpu-promises.ts';
import { linear, rms } from '../support/leaves.ts';
import { describeOnFastestGpu } from '../support/on-gpu.ts';
import { type TinyModelOptions, tinyModel } from '../support/tiny-model.ts';
import { withTensors } from '../support/with-tensors.ts';

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
      output: { ...rms(32, 'final.norm'), kind: layer === 0 ? 'layer' : 'rms' },
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

  it('may see chunks alone, scale the stream, have a norm for each head and inputs of single layers', async () => {
    const model = tinyModel({ ...sizes, ffnSize: 16, queryKeyNorm: 'all', window: 9 });
    const attending = eachAttention(model.spec, (attention) => {
      const { queryNorm, stored } = attention;
      if (queryNorm === undefined || stored?.keyNorm === undefined) return attention;
      return {
        ...attention,
        chunk: 11,
        queryNorm: { ...queryNorm, over: 'each' },
        stored: { ...stored, keyNorm: { ...stored.keyNorm, over: 'each' } },
      };
    });
    const reading = (index: number): PartSpec => ({
      input: rms(32),
      body: {
        kind: 'per-layer-input',
        index,
        activation: 'gelu-tanh',
        gate: linear('layers.0.query', 16, 32),
        output: linear('layers.0.down', 32, 16),
      },
    });
    const spec: ModelSpec = {
      ...attending,
      layers: attending.layers.map(({ branches }, index) => ({
        branches: [...branches, { parts: [reading(index)], streamScale: 0.6 }],
      })),
      perLayerInputs: {
        count: 2,
        size: 16,
        // Fewer than there are tokens.
        table: tableSpec('embedding', 40, 32),
        tableScale: 0.5,
        projection: linear('layers.1.query', 32, 32),
        projectionScale: 0.7,
        norm: rms(16),
      },
    };
    await expectPromises(backends, { ...model, spec }, 'f16');
  });

  it.each(['f16', 'q8'] as const)('may attend by MLA: %s', async (kvType) => {
    const { spec, weights } = tinyModel({ ...sizes, rotatedValues: 8 });
    const [headCount, kvLoraRank, qkNopeHeadDim, qkRopeHeadDim, vHeadDim] = [5, 20, 12, 8, 6];
    const latent: MlaSpec = {
      kind: 'mla',
      headCount,
      cache: 0,
      kvLoraRank,
      qkNopeHeadDim,
      qkRopeHeadDim,
      vHeadDim,
      queryInput: { down: linear('latent.down', 24, 32), norm: rms(24, 'latent.query-norm') },
      query: linear('latent.query', headCount * qkNopeHeadDim, 24),
      queryRope: linear('latent.query-rotated', headCount * qkRopeHeadDim, 24),
      kvDown: linear('latent.latent', kvLoraRank, 32),
      kvNorm: rms(kvLoraRank, 'latent.norm'),
      keyRope: linear('latent.key-rotated', qkRopeHeadDim, 32),
      keyUp: { ...linear('latent.to-latent', headCount * kvLoraRank, qkNopeHeadDim), members: headCount },
      valueUp: { ...linear('latent.to-values', headCount * vHeadDim, kvLoraRank), members: headCount },
      output: linear('latent.output', 32, headCount * vHeadDim),
      rope: 0,
      scale: 0.3,
    };
    const changed: ModelSpec = {
      ...eachPart(spec, (part, layer) =>
        layer === 0 && part.body.kind === 'attention' ? { ...part, body: latent } : part,
      ),
      caches: spec.caches.map((cache, index) =>
        index === 0
          ? { headCount: 1, headSize: kvLoraRank + qkRopeHeadDim, valuesInKeys: kvLoraRank }
          : cache,
      ),
    };
    await expectPromises(backends, withTensors(changed, weights), kvType);
  });
});
