// Layers of every kind on a simulated GPU: the bits of the processor, whatever the step and its neighbours.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import type { Backend, CreateBackend, KvType } from '../../src/compute/backend.ts';
import { type BatchSequence, buildBatch } from '../../src/compute/batch.ts';
import { createCpuBackend } from '../../src/compute/cpu/backend.ts';
import { allFeatures, randomEncoders, rareLayers } from '../contract/contract-models.ts';
import { namedModels } from '../contract/named-models.ts';
import { recurrentModel } from '../contract/recurrent-contract.ts';
import { stepsLogits } from '../support/formula-adapter.ts';
import { asFolder, type FormulaModel, formulaModel } from '../support/formula-model.ts';
import { asDoraAdapter, asMlxAdapter, asPeftAdapter, changeOf } from '../support/published-adapters.ts';
import { streamedModel } from '../support/rare-models.ts';
import { simulatedGpu } from '../support/simulated-gpu.ts';
import { randomTokens, type TinyModel, type TinyModelOptions, tinyModel } from '../support/tiny-model.ts';

const gpu = simulatedGpu();
const BLOCKS = 4;
const types = ['F32', 'F16', 'BF16', 'Q8_0', 'Q4_0'] as const;

type Steps = readonly (readonly BatchSequence[])[];

/** Logits and states of each step. */
async function resultsOf(backend: Backend, steps: Steps): Promise<Float32Array[]> {
  const results: Float32Array[] = [];
  try {
    for (const sequences of steps) {
      const { logits, states } = await backend.step(buildBatch(sequences));
      results.push(logits.slice(), states.slice());
    }
  } finally {
    backend.close();
  }
  return results;
}

const onCpu: CreateBackend = (spec, weights, options) =>
  createCpuBackend(gpu.addon(), spec, weights, { ...options, threads: 1 });
const onGpu: CreateBackend = (spec, weights, options) => gpu.create({ spec, weights }, options);

async function expectSameBits(
  { spec, weights }: TinyModel,
  steps: Steps,
  kvType: KvType = 'f16',
): Promise<void> {
  const options = { blockCount: BLOCKS, kvType };
  const expected = await resultsOf(await onCpu(spec, weights, options), steps);
  expect(expected.some(({ length }) => length > 0)).toBe(true);
  expect(expected.every((values) => values.every(Number.isFinite))).toBe(true);
  expect(await resultsOf(await onGpu(spec, weights, options), steps)).toEqual(expected);
}

/** Two sequences in chunks of several sizes; the last two steps have one shape. */
function mixedSteps(vocabSize: number): Steps {
  const [one, other] = [randomTokens(13, vocabSize, 5), randomTokens(9, vocabSize, 6)];
  const part = (tokens: readonly number[], start: number, end: number, block: number): BatchSequence => ({
    tokens: tokens.slice(start, end),
    start,
    blocks: [block],
    wantLogits: 'all',
  });
  return [
    [part(one, 0, 10, 2)],
    [part(other, 0, 7, 1), part(one, 10, 11, 2)],
    [part(one, 11, 12, 2), part(other, 7, 8, 1)],
    [part(one, 12, 13, 2), part(other, 8, 9, 1)],
  ];
}

/** Whole texts, alone and with others. */
function texts(vocabSize: number): Steps {
  const text = (count: number, block: number): BatchSequence => ({
    tokens: randomTokens(count, vocabSize, count),
    start: 0,
    blocks: [block],
    wantLogits: 'none',
    wantStates: 'all',
  });
  return [[text(11, 0)], [text(3, 1), text(11, 2), text(1, 3)]];
}

describe('the cuda backend has the bits of the cpu backend', () => {
  it.each(namedModels)('$name', ({ make, kvType }) => {
    const model = make();
    return expectSameBits(model, mixedSteps(model.spec.vocabSize), kvType);
  });

  it.each([allFeatures(6, types), ...rareLayers(3), randomEncoders(3, types)])(
    'of random models: $name',
    ({ models, runs }) => {
      const property = fc.asyncProperty(models, fc.constantFrom<KvType>('f16', 'q8'), (model, kvType) => {
        const { layers, vocabSize } = model.spec;
        const isEncoder = JSON.stringify(layers).includes('"bidirectional":true');
        return expectSameBits(model, isEncoder ? texts(vocabSize) : mixedSteps(vocabSize), kvType);
      });
      return fc.assert(property, runs);
    },
  );

  it.each([
    { type: 'F32', count: 4, hiddenSize: 40, gateCutoff: 0.3, perLayerScale: true },
    { type: 'BF16', count: 2, hiddenSize: 64, gateCutoff: 1.6, perLayerScale: false },
  ] as const)('AltUp, LAuReL and cut gates: $count streams', (options) => {
    const model = streamedModel({ seed: 3, ...options });
    return expectSameBits(model, mixedSteps(model.spec.vocabSize));
  });

  it.each<[string, TinyModelOptions]>([
    ['RMS norms', {}],
    ['layer norms with biases', { layerNorms: true, biases: true }],
    ['norms after branches', { postNorms: true }],
    ['parts side by side', { parallel: true }],
  ])('of inputs that are quantized with the stream: %s', async (_, options) => {
    // Not whole segments.
    const sizes = { hiddenSize: 544, headCount: 2, kvHeadCount: 1, headSize: 32, ffnSize: 32, vocabSize: 64 };
    const model = tinyModel({ type: 'Q8_0', layerCount: 2, ...sizes, ...options });
    const tokens = randomTokens(12, 64, 3);
    const part = (start: number, end: number): BatchSequence => ({
      tokens: tokens.slice(start, end),
      start,
      blocks: [0],
      wantLogits: 'all',
    });
    await expectSameBits(model, [[part(0, 9)], [part(9, 10)], [part(10, 11)], [part(11, 12)]]);
  });

  // With 544 inputs a router's sums are of two segments, the second of them short.
  it.each([32, 544])('of experts with quantized matrices, of %i inputs', (hiddenSize) => {
    const model = tinyModel({
      ...{ type: 'Q8_0', layerCount: 1, hiddenSize, headCount: 2, kvHeadCount: 1, headSize: 32 },
      ffnSize: 32,
      vocabSize: 64,
      experts: {
        count: 40,
        size: 32,
        router: { score: 'softmax', used: 8, normalized: true, scale: 1 },
        shared: true,
      },
    });
    const { vocabSize } = model.spec;
    const alone = {
      tokens: randomTokens(1, vocabSize, 7),
      start: 13,
      blocks: [2],
      wantLogits: 'all',
    } as const;
    return expectSameBits(model, [...mixedSteps(vocabSize), [alone]]);
  });

  it.each<[string, TinyModelOptions]>([
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
    ['quantized', { type: 'Q8_0', addedTables: true, window: 7, sinks: true }],
  ])('of encoders: %s', (_, options) => {
    const sizes = { hiddenSize: 32, headCount: 4, kvHeadCount: 2, headSize: 32, ffnSize: 64, vocabSize: 64 };
    return expectSameBits(tinyModel({ bidirectional: true, ...sizes, ...options }), texts(64));
  });
});

describe('recurrent states of the cuda backend', () => {
  const tokens = randomTokens(24, recurrentModel().spec.vocabSize, 7);

  // Columns of 128 values are kept in registers.
  it.each([20, 128])(
    'have the bits of the cpu backend, in chunks, from copies and with checkpoints: %d rows',
    (size) => {
      const part = (
        start: number,
        end: number,
        block: number,
        from: number | undefined,
        kept: readonly (readonly [end: number, slot: number])[],
      ): BatchSequence => ({
        tokens: tokens.slice(start, end),
        start,
        blocks: [block],
        wantLogits: 'all',
        state: { from, kept: kept.map(([at, slot]) => ({ after: at - start, slot })) },
      });
      const first = (end: number, block: number, slot: number) =>
        part(0, end, block, undefined, [[end, slot]]);
      return expectSameBits(recurrentModel(size), [
        // Checkpoints within a step, closer to each other than a convolution reaches.
        [
          part(0, 12, 0, undefined, [
            [1, 1],
            [3, 2],
            [12, 0],
          ]),
          first(3, 1, 3),
        ],
        // From a checkpoint into another slot, with others; one goes on in its own slot and stores what it started from again.
        [
          part(3, 5, 1, 2, [[5, 3]]),
          first(2, 2, 4),
          part(12, 15, 0, 0, [
            [13, 5],
            [15, 0],
          ]),
        ],
        // Steps of one shape.
        [part(15, 16, 0, 0, [[16, 0]]), part(5, 6, 1, 3, [[6, 3]])],
        [part(16, 17, 0, 0, [[17, 0]]), part(6, 7, 1, 3, [[7, 3]])],
      ]);
    },
  );
});

describe('adapters of the cuda backend', () => {
  const folder = mkdtempSync(join(tmpdir(), 'chairlift-cuda-adapters-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  async function expectAdaptedBits(model: FormulaModel, paths: readonly string[]): Promise<void> {
    const ids = (first: number, end: number) => model.ids.slice(first, end);
    const mixed = [
      { tokens: ids(0, 11), adapter: 1 },
      { tokens: ids(5, 8) },
      { tokens: ids(3, 6), adapter: 0 },
      { tokens: ids(9, 10), adapter: 2 },
    ];
    const steps = [mixed, [{ tokens: ids(5, 8) }], [{ tokens: ids(5, 8), adapter: 0 }]];
    const expected = await stepsLogits(onCpu, asFolder(model), paths, steps);
    expect(expected[1]).not.toEqual(expected[2]);
    expect(await stepsLogits(onGpu, asFolder(model), paths, steps)).toEqual(expected);
  }

  it('have the bits of the cpu backend, of embeddings and heads', () => {
    const model = formulaModel('gemma3 with a logit cap');
    return expectAdaptedBits(model, [
      asMlxAdapter(join(folder, 'tied'), changeOf(model, /embed_tokens\.weight/)),
      asPeftAdapter(join(folder, 'table'), changeOf(model, /(embed_tokens|q_proj)\.weight/, 5)),
      asPeftAdapter(join(folder, 'head'), changeOf({ tensors: { 'lm_head.weight': [40, 32] } }, /lm_head/)),
    ]);
  });

  it('have the bits of the cpu backend, of experts', () => {
    const model = formulaModel('qwen3 with experts');
    return expectAdaptedBits(model, [
      asMlxAdapter(join(folder, 'all'), changeOf(model, /(_proj|mlp\.gate)\.weight/)),
      asPeftAdapter(join(folder, 'some'), changeOf(model, /experts\.[023]\.(up|down)_proj\.weight/, 5)),
      asDoraAdapter(join(folder, 'scaled'), changeOf(model, /experts\.\d\.gate_proj\.weight/)),
    ]);
  });
});
