// Small random models wholly in memory, with any feature a ModelSpec can have switched on or off.

import { leavesOf, tableSpec, vectorSpec } from '../../src/model/leaves.ts';
import { ropeTable } from '../../src/model/rope.ts';
import type {
  Activation,
  AttentionSpec,
  BranchSpec,
  HeadNormSpec,
  LayerSpec,
  LinearSpec,
  MlpSpec,
  ModelSpec,
  MoeSpec,
  NormSpec,
  PartSpec,
  RouterSpec,
  RowSlice,
} from '../../src/model/spec.ts';
import { layerLinears, vectorsOf } from '../../src/model/spec-walk.ts';
import { type TensorType, tensorLayouts } from '../../src/weights/tensor-type.ts';
import type { WeightSource } from '../../src/weights/weight-source.ts';
import { linear, rms } from './leaves.ts';
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
  /** Over each head of q and k; or over all heads together. */
  readonly queryKeyNorm?: boolean | 'all';
  readonly normsAfterRope?: boolean;
  /** Norms around the mean, with biases. */
  readonly layerNorms?: boolean;
  readonly preNorms?: boolean;
  readonly postNorms?: boolean;
  /** Tokens see those behind them. */
  readonly bidirectional?: boolean;
  /** Norms of the residual stream behind each branch. */
  readonly streamNorms?: boolean;
  /** Positions and kinds of text are added to embeddings, which are normalized then. */
  readonly addedTables?: boolean;
  readonly finalNorm?: boolean;
  /** Attention and feed-forward in one branch. */
  readonly parallel?: boolean;
  readonly residualScale?: number;
  readonly logitScale?: number;
  /** Without rotation in every second layer, from the second on. */
  readonly someUnrotated?: boolean;
  readonly sinks?: boolean;
  readonly attentionGate?: boolean;
  /** Values are keys before their norm, and normalized by themselves. */
  readonly valuesAreKeys?: boolean;
  readonly growth?: AttentionSpec['growth'];
  readonly ungated?: boolean;
  /** In every layer but the first of several. */
  readonly experts?: TinyExperts;
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

export interface TinyExperts {
  readonly count: number;
  readonly size: number;
  readonly router: Omit<RouterSpec, 'linear' | 'routingBias' | 'expertScales' | 'norm'>;
  readonly routingBias?: boolean;
  readonly expertScales?: boolean;
  /** The router looks at the residual stream behind a norm of its own. */
  readonly routerNorm?: boolean;
  readonly scalesInput?: boolean;
  /** A feed-forward of the same size beside them, with a share for each row. */
  readonly shared?: boolean;
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

type Settings = TinyModelOptions & Required<Pick<TinyModelOptions, keyof typeof defaults>>;

export function tinyModel(options: TinyModelOptions = {}): TinyModel {
  const settings = { ...defaults, ...options } as Settings;
  const spec = tinySpec(settings);
  return { spec, weights: memoryWeights(tensorsOf(spec, settings)) };
}

/** Another spec, with random weights for all that it names. */
export function tinyModelOf(
  spec: ModelSpec,
  options: Pick<TinyModelOptions, 'seed' | 'type'> = {},
): TinyModel {
  return { spec, weights: memoryWeights(tensorsOf(spec, { ...defaults, ...options })) };
}

function tinySpec(settings: Settings): ModelSpec {
  const { hiddenSize, headSize, vocabSize, logitScale, logitSoftcap } = settings;
  const dimensions = settings.rotatedValues ?? headSize;
  const embedding = tableSpec('embedding', vocabSize, hiddenSize);
  return {
    architecture: 'tiny',
    hiddenSize,
    vocabSize,
    contextLength: settings.contextLength,
    normEpsilon: 1e-5,
    embeddingScale: settings.embeddingScale,
    ...(logitScale === undefined ? {} : { logitScale }),
    ...(logitSoftcap === undefined ? {} : { logitSoftcap }),
    ropes: [10_000, 500].map((base) => ropeTable({ base, dimensions }, { type: 'default' })),
    caches: Array.from({ length: settings.layerCount }, () => ({
      headCount: settings.kvHeadCount,
      headSize,
    })),
    recurrentStates: [],
    embedding,
    ...(settings.addedTables
      ? {
          positions: tableSpec('positions', settings.contextLength, hiddenSize),
          textKinds: tableSpec('text-kinds', 2, hiddenSize),
          embeddingNorm: normSpec(settings, 'embedding.norm'),
        }
      : {}),
    layers: Array.from({ length: settings.layerCount }, (_, index) => new TinyLayer(settings, index).spec()),
    ...(settings.finalNorm === false ? {} : { finalNorm: normSpec(settings, 'final.norm') }),
    head: linear(settings.tiedHead ? 'embedding' : 'head', vocabSize, hiddenSize),
  };
}

function normSpec({ hiddenSize, layerNorms, normOffset: offset }: Settings, weight: string): NormSpec {
  const norm = { ...rms(hiddenSize, weight), ...(offset === 0 ? {} : { offset }) };
  return layerNorms ? { ...norm, kind: 'layer', bias: `${weight}.bias` } : norm;
}

class TinyLayer {
  readonly #settings: Settings;
  readonly #index: number;

  constructor(settings: Settings, index: number) {
    this.#settings = settings;
    this.#index = index;
  }

  spec(): LayerSpec {
    const { experts, parallel, layerCount } = this.#settings;
    const mixes = experts !== undefined && (this.#index > 0 || layerCount === 1);
    const attending = this.#part(this.#attention(), 'attention.norm');
    const bodies = mixes ? this.#experts(experts) : [this.#mlp('', this.#settings.ffnSize)];
    const feeding = bodies.map((body) => this.#part(body, parallel ? 'attention.norm' : 'ffn.norm'));
    if (parallel) return { branches: [this.#branch([attending, ...feeding], 'attention-post.norm')] };
    return {
      branches: [this.#branch([attending], 'attention-post.norm'), this.#branch(feeding, 'ffn-post.norm')],
    };
  }

  #part(body: PartSpec['body'], norm: string): PartSpec {
    return this.#settings.preNorms === false ? { body } : { input: this.#norm(norm), body };
  }

  #branch(parts: readonly PartSpec[], norm: string): BranchSpec {
    const { postNorms, streamNorms, residualScale: scale } = this.#settings;
    return {
      parts,
      ...(postNorms ? { output: this.#norm(norm) } : {}),
      ...(scale === undefined ? {} : { scale }),
      ...(streamNorms ? { streamNorm: this.#norm(`${norm.replace('.norm', '-stream')}.norm`) } : {}),
    };
  }

  #attention(): AttentionSpec {
    const { headCount, kvHeadCount, headSize, hiddenSize, fused, window, ...rest } = this.#settings;
    const { attentionSoftcap, valuesAreKeys, growth } = rest;
    const queryRows = headCount * headSize;
    const kvRows = kvHeadCount * headSize;
    const fusedAt = (row: number): number => (fused ? row : 0);
    const name = (separate: string): string => (fused ? 'qkv' : separate);
    const windowed = window !== undefined && this.#index % 2 === 0;
    const queryNorm = this.#headNorm('query.norm', headCount);
    const keyNorm = this.#headNorm('key.norm', kvHeadCount);
    return {
      kind: 'attention',
      headCount,
      headSize,
      cache: this.#index,
      query: this.#linear(name('query'), queryRows, hiddenSize, 0, headCount),
      stored: {
        key: this.#linear(name('key'), kvRows, hiddenSize, fusedAt(queryRows), kvHeadCount),
        ...(valuesAreKeys
          ? { valueNorm: { norm: rms(headSize), over: 'head' } }
          : { value: this.#linear(name('value'), kvRows, hiddenSize, fusedAt(queryRows + kvRows)) }),
        ...(keyNorm === undefined ? {} : { keyNorm }),
      },
      output: this.#linear('output', hiddenSize, queryRows),
      ...(queryNorm === undefined ? {} : { queryNorm }),
      ...(rest.normsAfterRope ? { normsAfterRope: true } : {}),
      ...(rest.someUnrotated && this.#index % 2 === 1 ? {} : { rope: windowed ? 1 : 0 }),
      ...(rest.bidirectional ? { bidirectional: true } : {}),
      ...(windowed ? { window } : {}),
      scale: headSize ** -0.5,
      ...(attentionSoftcap === undefined ? {} : { softcap: attentionSoftcap }),
      ...(rest.sinks ? { sinks: vectorSpec(this.#at('sinks'), headCount) } : {}),
      ...(rest.attentionGate ? { gate: this.#linear('attention-gate', queryRows, hiddenSize) } : {}),
      ...(growth === undefined ? {} : { growth }),
    };
  }

  #mlp(prefix: string, size: number): MlpSpec {
    const { hiddenSize, activation, ungated } = this.#settings;
    const fused = this.#settings.fused && !ungated;
    const name = (separate: string): string => `${prefix}${fused ? 'gate-up' : separate}`;
    return {
      kind: 'mlp',
      size,
      activation,
      ...(ungated ? {} : { gate: this.#linear(name('gate'), size, hiddenSize) }),
      up: this.#linear(name('up'), size, hiddenSize, fused ? size : 0),
      down: this.#linear(`${prefix}down`, hiddenSize, size),
    };
  }

  #experts(experts: TinyExperts): (MoeSpec | MlpSpec)[] {
    const { hiddenSize } = this.#settings;
    const { count, size, router } = experts;
    const mixture: MoeSpec = {
      kind: 'moe',
      router: {
        ...router,
        linear: this.#linear('router', count, hiddenSize),
        ...(experts.routingBias ? { routingBias: vectorSpec(this.#at('choice-bias'), count) } : {}),
        ...(experts.expertScales ? { expertScales: vectorSpec(this.#at('expert-scales.norm'), count) } : {}),
        ...(experts.routerNorm ? { norm: this.#norm('router.norm') } : {}),
      },
      experts: Array.from({ length: count }, (_, expert) => this.#expert(experts, expert)),
      ...(experts.scalesInput ? { scalesInput: true } : {}),
    };
    if (!experts.shared) return [mixture];
    const share = this.#linear('shared.share', 1, hiddenSize);
    return [mixture, { ...this.#mlp('shared.', size), share }];
  }

  /** Rows of one tensor that all experts share. */
  #expert({ size }: TinyExperts, expert: number): MlpSpec {
    const { hiddenSize, activation, ungated } = this.#settings;
    const inner = (part: string) => this.#linear(`experts.${part}`, size, hiddenSize, expert * size);
    return {
      kind: 'mlp',
      size,
      activation,
      ...(ungated ? {} : { gate: inner('gate') }),
      up: inner('up'),
      down: this.#linear('experts.down', hiddenSize, size, expert * hiddenSize),
    };
  }

  #linear(part: string, rows: number, columns: number, firstRow = 0, heads?: number): LinearSpec {
    const { interleaved, biases, rotatedValues, headSize } = this.#settings;
    const order =
      interleaved && heads !== undefined
        ? { interleaved: { heads, rotated: rotatedValues ?? headSize } }
        : {};
    const slice = (tensor: string): RowSlice => ({ tensor, firstRow, rows, ...order });
    return {
      leaf: 'linear',
      weight: slice(this.#at(part)),
      columns,
      ...(biases ? { bias: slice(this.#at(`${part}.bias`)) } : {}),
    };
  }

  #headNorm(part: string, heads: number): HeadNormSpec | undefined {
    const { queryKeyNorm, headSize, normOffset: offset } = this.#settings;
    if (!queryKeyNorm) return undefined;
    const over = queryKeyNorm === 'all' ? 'all' : 'head';
    const norm = rms(over === 'all' ? heads * headSize : headSize, this.#at(part));
    return { norm: { ...norm, ...(offset === 0 ? {} : { offset }) }, over };
  }

  #norm(part: string): NormSpec {
    return normSpec(this.#settings, this.#at(part));
  }

  #at(part: string): string {
    return `layers.${this.#index}.${part}`;
  }
}

function tensorsOf(spec: ModelSpec, settings: Settings): MemoryTensor[] {
  const random = seededRandom(settings.seed);
  const tensors = new Map<string, MemoryTensor>();
  const sizes = new Map<string, { readonly rows: number; readonly columns: number }>();
  const addMatrix = (slice: RowSlice, columns: number): void => {
    const rows = Math.max(slice.firstRow + slice.rows, sizes.get(slice.tensor)?.rows ?? 0);
    sizes.set(slice.tensor, { rows, columns });
  };
  const linears = [...layerLinears(spec), ...(settings.tiedHead ? [] : [spec.head])];
  for (const table of leavesOf(spec, 'table')) addMatrix(table, table.columns);
  for (const { weight, columns } of linears) addMatrix(weight, columns);
  for (const [name, { rows, columns }] of sizes) {
    const { blockSize } = tensorLayouts[settings.type];
    if (columns % blockSize !== 0) {
      throw new Error(`${settings.type} rows hold whole blocks of ${blockSize}, not ${columns} values`);
    }
    const bytes = randomBlocks(settings.type, (rows * columns) / blockSize, random, columns ** -0.5);
    tensors.set(name, { name, type: settings.type, shape: [rows, columns], bytes });
  }
  const addBias = (name: string, size: number) => tensors.set(name, vector(name, size, 0, 0.2, random));
  const biasSizes = new Map<string, number>();
  for (const { bias } of linears) {
    if (bias === undefined) continue;
    biasSizes.set(bias.tensor, Math.max(bias.firstRow + bias.rows, biasSizes.get(bias.tensor) ?? 0));
  }
  for (const [name, size] of biasSizes) addBias(name, size);
  for (const { tensor, size } of vectorsOf(spec)) {
    if (!tensor.endsWith('.norm')) addBias(tensor, size);
    else tensors.set(tensor, vector(tensor, size, 1 - settings.normOffset, 0.2, random));
  }
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
