// Small random models wholly in memory, with any feature a ModelSpec can have switched on or off.

import { ropeTable } from '../../src/model/rope.ts';
import type { Activation, LayerSpec, LinearSpec, ModelSpec, RowSlice } from '../../src/model/spec.ts';
import { type TensorType, tensorLayouts } from '../../src/weights/tensor-type.ts';
import type { WeightSource } from '../../src/weights/weight-source.ts';
import { type MemoryTensor, memoryWeights } from './memory-weights.ts';
import { type Random, randomBlocks, seededRandom } from './random-blocks.ts';

export interface TinyModelOptions {
  readonly seed?: number;
  /** Type of every matrix; rows must hold whole blocks of it (K-quants: multiples of 256). */
  readonly type?: TensorType;
  readonly layerCount?: number;
  readonly hiddenSize?: number;
  readonly headCount?: number;
  readonly kvHeadCount?: number;
  readonly headSize?: number;
  readonly ffnSize?: number;
  readonly vocabSize?: number;
  readonly contextLength?: number;
  readonly activation?: Activation;
  /** Values of a head that are rotated; all of them unless given. */
  readonly rotatedValues?: number;
  /** A window over every second layer, from the first on, and a rotary base of its own there. */
  readonly window?: number;
  readonly queryKeyNorm?: boolean;
  readonly postNorms?: boolean;
  readonly biases?: boolean;
  /** q, k and v as slices of one tensor, gate and up of another. */
  readonly fused?: boolean;
  /** q and k rows stored for rotary pairs (2i, 2i + 1). */
  readonly interleaved?: boolean;
  readonly tiedHead?: boolean;
  readonly normOffset?: number;
  readonly embeddingScale?: number;
  readonly attentionSoftcap?: number;
  readonly logitSoftcap?: number;
}

export interface TinyModel {
  readonly spec: ModelSpec;
  readonly weights: WeightSource;
}

const defaults = {
  seed: 1,
  type: 'F32',
  layerCount: 2,
  hiddenSize: 64,
  headCount: 4,
  kvHeadCount: 2,
  headSize: 16,
  ffnSize: 96,
  vocabSize: 131,
  contextLength: 256,
  activation: 'silu',
  normOffset: 0,
  embeddingScale: 1,
} as const satisfies TinyModelOptions;

type Settings = typeof defaults & TinyModelOptions;

export function tinyModel(options: TinyModelOptions = {}): TinyModel {
  const settings = { ...defaults, ...options } as Settings;
  const spec = tinySpec(settings);
  return { spec, weights: memoryWeights(tensorsOf(spec, settings)) };
}

function tinySpec(settings: Settings): ModelSpec {
  const { hiddenSize, headSize, vocabSize, attentionSoftcap, logitSoftcap } = settings;
  const dimensions = settings.rotatedValues ?? headSize;
  const embedding = { tensor: 'embedding', firstRow: 0, rows: vocabSize };
  const head = settings.tiedHead ? embedding : { tensor: 'head', firstRow: 0, rows: vocabSize };
  return {
    architecture: 'tiny',
    hiddenSize,
    headCount: settings.headCount,
    kvHeadCount: settings.kvHeadCount,
    headSize,
    ffnSize: settings.ffnSize,
    vocabSize,
    contextLength: settings.contextLength,
    normEpsilon: 1e-5,
    normOffset: settings.normOffset,
    activation: settings.activation,
    embeddingScale: settings.embeddingScale,
    attentionScale: headSize ** -0.5,
    ...(attentionSoftcap === undefined ? {} : { attentionSoftcap }),
    ...(logitSoftcap === undefined ? {} : { logitSoftcap }),
    ropes: [10_000, 500].map((base) => ropeTable({ base, dimensions }, { type: 'default' })),
    embedding,
    layers: Array.from({ length: settings.layerCount }, (_, index) => tinyLayer(settings, index)),
    finalNorm: 'final.norm',
    head: { weight: head, columns: hiddenSize },
  };
}

function tinyLayer(settings: Settings, index: number): LayerSpec {
  const { hiddenSize, headCount, kvHeadCount, headSize, ffnSize } = settings;
  const at = (part: string): string => `layers.${index}.${part}`;
  const queryRows = headCount * headSize;
  const kvRows = kvHeadCount * headSize;
  const linear = (part: string, rows: number, columns: number, firstRow = 0, heads?: number): LinearSpec => {
    const order = settings.interleaved && heads !== undefined ? { interleavedHeads: heads } : {};
    const slice = (tensor: string): RowSlice => ({ tensor, firstRow, rows, ...order });
    return {
      weight: slice(at(part)),
      columns,
      ...(settings.biases ? { bias: slice(at(`${part}.bias`)) } : {}),
    };
  };
  const fusedAt = (row: number): number => (settings.fused ? row : 0);
  const name = (separate: string, fused: string): string => (settings.fused ? fused : separate);
  const windowed = settings.window !== undefined && index % 2 === 0;
  return {
    attentionNorm: at('attention.norm'),
    query: linear(name('query', 'qkv'), queryRows, hiddenSize, 0, headCount),
    key: linear(name('key', 'qkv'), kvRows, hiddenSize, fusedAt(queryRows), kvHeadCount),
    value: linear(name('value', 'qkv'), kvRows, hiddenSize, fusedAt(queryRows + kvRows)),
    output: linear('output', hiddenSize, queryRows),
    ...(settings.queryKeyNorm ? { queryNorm: at('query.norm'), keyNorm: at('key.norm') } : {}),
    ffnNorm: at('ffn.norm'),
    gate: linear(name('gate', 'gate-up'), ffnSize, hiddenSize),
    up: linear(name('up', 'gate-up'), ffnSize, hiddenSize, fusedAt(ffnSize)),
    down: linear('down', hiddenSize, ffnSize),
    ...(settings.postNorms
      ? { attentionPostNorm: at('attention-post.norm'), ffnPostNorm: at('ffn-post.norm') }
      : {}),
    rope: windowed ? 1 : 0,
    ...(windowed ? { window: settings.window as number } : {}),
  };
}

function tensorsOf(spec: ModelSpec, settings: Settings): MemoryTensor[] {
  const random = seededRandom(settings.seed);
  const tensors = new Map<string, MemoryTensor>();
  const matrix = (slice: RowSlice, columns: number): void => {
    // Slices of a fused tensor come in order, so the last one sees its full length.
    const rows = slice.firstRow + slice.rows;
    const { blockSize } = tensorLayouts[settings.type];
    if (columns % blockSize !== 0) {
      throw new Error(`${settings.type} rows hold whole blocks of ${blockSize}, not ${columns} values`);
    }
    const bytes = randomBlocks(settings.type, (rows * columns) / blockSize, random, columns ** -0.5);
    tensors.set(slice.tensor, { name: slice.tensor, type: settings.type, shape: [rows, columns], bytes });
  };
  const linear = ({ weight, columns, bias }: LinearSpec): void => {
    matrix(weight, columns);
    if (bias !== undefined)
      tensors.set(bias.tensor, vector(bias.tensor, bias.firstRow + bias.rows, 0, 0.2, random));
  };
  const norm = (name: string | undefined, size: number): void => {
    if (name !== undefined) tensors.set(name, vector(name, size, 1 - settings.normOffset, 0.2, random));
  };
  matrix(spec.embedding, spec.hiddenSize);
  for (const layer of spec.layers) {
    const { query, key, value, output, gate, up, down } = layer;
    for (const map of [query, key, value, output, gate, up, down]) linear(map);
    const { attentionNorm, attentionPostNorm, ffnNorm, ffnPostNorm } = layer;
    for (const name of [attentionNorm, attentionPostNorm, ffnNorm, ffnPostNorm]) norm(name, spec.hiddenSize);
    norm(layer.queryNorm, spec.headSize);
    norm(layer.keyNorm, spec.headSize);
  }
  norm(spec.finalNorm, spec.hiddenSize);
  if (!settings.tiedHead) linear(spec.head);
  return [...tensors.values()];
}

function vector(name: string, size: number, mean: number, spread: number, random: Random): MemoryTensor {
  const values = Float32Array.from({ length: size }, () => mean + spread * (2 * random() - 1));
  return { name, type: 'F32', shape: [size], bytes: new Uint8Array(values.buffer) };
}

/** Tokens for a model of `vocabSize`, the same for the same seed. */
export function randomTokens(count: number, vocabSize: number, seed = 1): number[] {
  const random = seededRandom(seed);
  return Array.from({ length: count }, () => Math.floor(random() * vocabSize));
}
