// Random models by what they are made of, for as many runs as a backend has time for.

import fc from 'fast-check';
import type { TensorType } from '../../src/weights/tensor-type.ts';
import { floatTypes, models } from '../support/backend-properties.ts';
import { featuredModel, featuredModels } from '../support/featured-models.ts';
import { mlaModel, streamedModel } from '../support/rare-models.ts';
import { type TinyModel, type TinyModelOptions, tinyModel } from '../support/tiny-model.ts';
import { encoders } from '../support/whole-texts.ts';

export interface RandomModel extends TinyModel {
  readonly seed: number;
}

export interface ModelGroup {
  readonly name: string;
  readonly models: fc.Arbitrary<RandomModel>;
  readonly runs: { readonly seed: number; readonly numRuns: number };
}

const seeds = fc.integer({ min: 1, max: 1e6 });
const runs = (numRuns: number) => ({ seed: 20261115, numRuns });

/** Attention and feed-forwards of any size, with matrices of any type. */
export function plainModels(
  numRuns: number,
  change: (options: TinyModelOptions) => TinyModelOptions = (options) => options,
): ModelGroup {
  const arbitrary = models.map((options) => ({ ...tinyModel(change(options)), seed: options.seed ?? 1 }));
  return { name: 'attention and feed-forwards', models: arbitrary, runs: runs(numRuns) };
}

const groupTypes: readonly TensorType[] = ['Q8_0', 'Q4_0', 'Q4_1', 'MLX4_G32_BF16'];

/** Branches, parts, norms, attention and experts of every kind. */
export function allFeatures(
  numRuns: number,
  types: readonly TensorType[] = ['F32', 'F16', 'BF16', ...groupTypes, 'Q4_K', 'Q6_K'],
): ModelGroup {
  const arbitrary = featuredModels(types).map((options) => ({
    ...featuredModel(options),
    seed: options.model.seed ?? 1,
  }));
  return { name: 'every feature of a spec', models: arbitrary, runs: runs(numRuns) };
}

// Rows of quantized types hold whole blocks; float types take odd sizes.
const mlaModels: fc.Arbitrary<RandomModel> = fc.constantFrom('F32', 'BF16', 'Q8_0', 'Q4_0').chain((type) => {
  const odd = floatTypes.includes(type as 'F32');
  return fc
    .record(
      {
        seed: seeds,
        type: fc.constant(type as 'F32'),
        headCount: odd ? fc.constantFrom(1, 3, 5, 8) : fc.constantFrom(2, 6),
        kvLoraRank: odd ? fc.constantFrom(20, 32, 100) : fc.constantFrom(32, 96),
        qkNopeHeadDim: odd ? fc.constantFrom(7, 16, 40) : fc.constantFrom(32, 64),
        qkRopeHeadDim: fc.constantFrom(4, 16),
        vHeadDim: odd ? fc.constantFrom(9, 16) : fc.constantFrom(16, 32),
        qLoraRank: odd ? fc.constantFrom(13, 48) : fc.constant(32),
      },
      {
        requiredKeys: [
          'seed',
          'type',
          'headCount',
          'kvLoraRank',
          'qkNopeHeadDim',
          'qkRopeHeadDim',
          'vHeadDim',
        ],
      },
    )
    .map((options) => ({ ...mlaModel(options), seed: options.seed }));
});

const altUpModels: fc.Arbitrary<RandomModel> = fc
  .record({
    seed: seeds,
    type: fc.constantFrom('F32', 'F16', 'BF16'),
    count: fc.constantFrom(2, 4),
    hiddenSize: fc.constantFrom(40, 64),
    gateCutoff: fc.constantFrom(0.3, 1.6),
    perLayerScale: fc.boolean(),
  })
  .map((options) => ({ ...streamedModel(options), seed: options.seed }));

export function rareLayers(numRuns: number): ModelGroup[] {
  return [
    { name: 'MLA', models: mlaModels, runs: runs(numRuns) },
    { name: 'AltUp, LAuReL and cut gates', models: altUpModels, runs: runs(numRuns) },
  ];
}

export function randomEncoders(numRuns: number, types: readonly TensorType[]): ModelGroup {
  const arbitrary = encoders(types).map((options) => ({ ...tinyModel(options), seed: options.seed ?? 1 }));
  return { name: `matrices of ${types.join(', ')}`, models: arbitrary, runs: runs(numRuns) };
}
