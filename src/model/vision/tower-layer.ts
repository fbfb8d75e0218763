// The layer that towers are made of: attention among cells, then a feed-forward, each behind a norm. Families name its tensors
// and say what theirs has beside these.

import { defined } from '../layer-builder.ts';
import type { LinearSpec, NormSpec, VectorSpec } from '../leaves.ts';
import type { TowerSizes } from './vision-builder.ts';
import type { GridAttentionSpec, TowerActivation, TowerLayerStep } from './vision-spec.ts';

export type TowerMap = 'query' | 'key' | 'value' | 'output' | 'up' | 'down';

type AttentionOptions = Pick<
  GridAttentionSpec,
  'queryNorm' | 'keyNorm' | 'valueNorm' | 'rope' | 'window' | 'scale'
>;

/** For attention and for the feed-forward. */
type ForBoth<Leaf> = readonly [Leaf, Leaf];

interface TowerLayerOptions {
  readonly linear: (role: TowerMap, rows: number, columns: number) => LinearSpec;
  readonly inputs: ForBoth<NormSpec>;
  readonly outputs?: ForBoth<NormSpec>;
  readonly scales?: ForBoth<VectorSpec>;
  readonly activation: TowerActivation;
  /** `down(activation(gate) * up)`. Default: `down(activation(up))`. */
  readonly gate?: LinearSpec;
  /** Default: scores are divided by the root of a head's size, and there is nothing else. */
  readonly attention?: Partial<AttentionOptions> | undefined;
}

export function towerLayer(
  { hiddenSize, ffnSize, headCount, headSize, epsilon }: TowerSizes,
  { linear, inputs, outputs, scales, activation, gate, attention = {} }: TowerLayerOptions,
): TowerLayerStep {
  const width = headCount * headSize;
  return {
    kind: 'layer',
    epsilon,
    branches: [
      defined({
        input: inputs[0],
        body: {
          kind: 'grid-attention',
          headCount,
          headSize,
          query: linear('query', width, hiddenSize),
          key: linear('key', width, hiddenSize),
          value: linear('value', width, hiddenSize),
          output: linear('output', hiddenSize, width),
          scale: headSize ** -0.5,
          ...attention,
        },
        output: outputs?.[0],
        scales: scales?.[0],
      }),
      defined({
        input: inputs[1],
        body: defined({
          kind: 'tower-mlp',
          activation,
          gate,
          up: linear('up', ffnSize, hiddenSize),
          down: linear('down', hiddenSize, ffnSize),
        }),
        output: outputs?.[1],
        scales: scales?.[1],
      }),
    ],
  };
}
