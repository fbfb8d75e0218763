// A small random model that sees: a tower with every kind of step, and a text model with all that images change in one.

import { tableSpec, vectorSpec } from '../../src/model/leaves.ts';
import type { AttentionSpec, LinearSpec, ModelSpec, PartSpec } from '../../src/model/spec.ts';
import { gridRope } from '../../src/model/vision/grid-rope.ts';
import type {
  GridAttentionSpec,
  ImageInput,
  ImageView,
  TowerBranchSpec,
  TowerMlpSpec,
  TowerStep,
  VisionSpec,
} from '../../src/model/vision/vision-spec.ts';
import type { TensorType } from '../../src/weights/tensor-type.ts';
import { linear, rms } from './leaves.ts';
import { type Random, seededRandom } from './random-blocks.ts';
import { type TinyModel, tinyModel, tinyModelOf } from './tiny-model.ts';

interface SeeingOptions {
  readonly type?: TensorType;
  /** Tokens of an image see each other in the first layer, whose window is shorter. */
  readonly bothWays?: boolean;
  readonly perLayerInputs?: boolean;
  /** Of the tower; all heads together have as many values as a cell. */
  readonly headSize?: number;
}

const HIDDEN = 64;
/** Values of a cell in the tower. */
const SIZE = 96;

export function seeingModel({
  type = 'F32',
  bothWays,
  perLayerInputs,
  headSize = 24,
}: SeeingOptions = {}): TinyModel {
  const { spec } = tinyModel({ hiddenSize: HIDDEN, headSize: 32, ffnSize: 96, window: 9, layerCount: 3 });
  const layers = spec.layers.map(({ branches }, index) => ({
    branches: [
      ...branches.map((branch) => ({
        ...branch,
        parts: branch.parts.map((part) => seeingPart(part, bothWays === true)),
      })),
      ...(perLayerInputs ? [{ parts: [readingPart(index)], streamScale: 0.6 }] : []),
    ],
  }));
  const seeing: ModelSpec = {
    ...spec,
    layers,
    ropes: spec.ropes.map((rope) => ({ ...rope, axes: rope.inverseFrequencies.map((_, pair) => pair % 3) })),
    ...(perLayerInputs
      ? {
          perLayerInputs: {
            count: 3,
            size: 16,
            table: tableSpec('inputs.table', 40, 48),
            imageToken: 7,
            tableScale: 0.5,
            projection: linear('inputs.projection', 48, HIDDEN),
            projectionScale: 0.7,
            norm: rms(16),
          },
        }
      : {}),
    vision: vision(headSize),
  };
  return tinyModelOf(seeing, { type });
}

function seeingPart(part: PartSpec, bothWays: boolean): PartSpec {
  const { body } = part;
  if (body.kind !== 'attention' || body.window === undefined || !bothWays) return part;
  return { ...part, body: { ...body, imagesBothWays: true } satisfies AttentionSpec };
}

function readingPart(index: number): PartSpec {
  return {
    input: rms(HIDDEN),
    body: {
      kind: 'per-layer-input',
      index,
      activation: 'gelu-tanh',
      gate: linear(`inputs.${index}.gate`, 16, HIDDEN),
      output: linear(`inputs.${index}.output`, HIDDEN, 16),
    },
  };
}

function vision(headSize: number): VisionSpec {
  return {
    preprocessing: {
      views: { kind: 'fixed', width: 64, height: 64 },
      filter: 'bicubic',
      mean: [0.5, 0.4, 0.6],
      deviation: [0.3, 0.2, 0.25],
    },
    tower: {
      steps: towerSteps(headSize),
      join: { kind: 'grid', newline: vectorSpec('tower.newline', HIDDEN), most: 2 },
    },
    prompt: { marker: '', text: '', layout: { kind: 'run', before: '', after: '' }, reserved: [] },
  };
}

function towerSteps(headSize: number): TowerStep[] {
  const norm = (name: string, size = SIZE) => rms(size, `tower.${name}.norm`);
  const layer = (index: number, changes: Partial<GridAttentionSpec>) => towerLayer(index, headSize, changes);
  const map = (name: string, rows: number, columns: number) => towerLinear(`tower.${name}`, rows, columns);
  return [
    {
      kind: 'patches',
      size: 4,
      order: 'channels-first',
      frames: 2,
      values: { factor: 2, shift: -1 },
      linears: [map('patch', SIZE, 96), map('second-patch', SIZE, 96)],
    },
    { kind: 'position-grid', table: tableSpec('tower.grid', 36, SIZE), by: 'cubic' },
    { kind: 'class-token', token: vectorSpec('tower.token', SIZE), place: 'first' },
    {
      kind: 'norm',
      norm: { ...norm('first'), kind: 'layer', bias: 'tower.first.norm.bias' },
      epsilon: 1e-5,
    },
    layer(0, { queryNorm: norm('all-queries'), keyNorm: norm('all-keys') }),
    { kind: 'drop-class-token' },
    {
      kind: 'position-axes',
      columns: tableSpec('tower.columns', 40, SIZE),
      rows: tableSpec('tower.rows', 40, SIZE),
    },
    layer(1, {
      window: 3,
      queryNorm: norm('queries', headSize),
      keyNorm: norm('keys', headSize),
      valueNorm: rms(headSize),
    }),
    {
      kind: 'deepstack',
      steps: [
        { kind: 'affine', factor: 0.5, shift: 0.1 },
        { kind: 'pool', size: 2 },
        { kind: 'merge', size: 2, order: 'cells' },
        { kind: 'linear', linear: map('stacked', HIDDEN, 4 * SIZE) },
      ],
    },
    layer(2, { window: 5 }),
    {
      kind: 'standardize',
      shifts: vectorSpec('tower.shifts', SIZE),
      scales: vectorSpec('tower.scales.norm', SIZE),
    },
    { kind: 'activation', activation: 'quick-gelu' },
    { kind: 'merge', size: 2, order: 'channels' },
    { kind: 'pool', size: 2 },
    { kind: 'feed-forward', mlp: mlp('last', HIDDEN, 4 * SIZE, 'gelu') },
  ];
}

function towerLayer(index: number, headSize: number, changes: Partial<GridAttentionSpec>): TowerStep {
  const at = (name: string) => `tower.${index}.${name}`;
  const map = (name: string, rows = SIZE, columns = SIZE) => towerLinear(at(name), rows, columns);
  const attending: TowerBranchSpec = {
    input: rms(SIZE, at('attention.norm')),
    body: {
      kind: 'grid-attention',
      headCount: SIZE / headSize,
      headSize,
      query: map('query'),
      key: map('key'),
      value: map('value'),
      output: map('output'),
      rope: gridRope(headSize, 100),
      scale: 0.2,
      ...changes,
    },
    output: rms(SIZE, at('attention-post.norm')),
    scales: vectorSpec(at('attention-scales.norm'), SIZE),
  };
  const feeding: TowerBranchSpec = {
    input: rms(SIZE, at('feeding.norm')),
    body: mlp(`${index}`, SIZE, SIZE, index === 0 ? 'silu' : 'gelu-tanh', index !== 1),
  };
  return { kind: 'layer', epsilon: 1e-5, branches: [attending, feeding] };
}

function mlp(
  name: string,
  rows: number,
  columns: number,
  activation: TowerMlpSpec['activation'],
  isGated = false,
): TowerMlpSpec {
  const map = (part: string, outputs: number, inputs: number) =>
    towerLinear(`tower.${name}.${part}`, outputs, inputs);
  const bounds = { inputs: [-1.5, 2], outputs: [-2.5, 2.5] } as const;
  return {
    kind: 'tower-mlp',
    activation,
    ...(isGated ? { gate: { ...map('gate', 160, columns), bounds } } : {}),
    up: map('up', 160, columns),
    down: { ...map('down', rows, 160), bounds },
  };
}

function towerLinear(tensor: string, rows: number, columns: number): LinearSpec {
  return { ...linear(tensor, rows, columns), bias: { tensor: `${tensor}.bias`, firstRow: 0, rows } };
}

/** The whole, and tiles in two rows of three. */
export function tiledImage(seed: number): ImageInput {
  const views = noisyViews(seed, [[52, 36], ...Array.from({ length: 6 }, () => [32, 32] as const)]);
  return { views, tiles: { rows: 2, columns: 3, picture: { width: 300, height: 180 } } };
}

/** The whole, whose rows are more than a piece's and no whole tiles, and one tile. */
export function smallImage(seed: number): ImageInput {
  const views = noisyViews(seed, [
    [36, 28],
    [16, 16],
  ]);
  return { views, tiles: { rows: 1, columns: 1, picture: { width: 16, height: 16 } } };
}

/** The whole alone, of this size. */
export function plainImage(seed: number, width: number, height: number): ImageInput {
  const views = noisyViews(seed, [[width, height]]);
  return { views, tiles: { rows: 0, columns: 0, picture: { width, height } } };
}

function noisyViews(seed: number, sizes: readonly (readonly [width: number, height: number])[]): ImageView[] {
  const random = seededRandom(seed);
  return sizes.map(([width, height]) => ({ width, height, rgb: noise(random, 3 * width * height) }));
}

function noise(random: Random, count: number): Uint8Array {
  return Uint8Array.from({ length: count }, () => Math.floor(random() * 256));
}
