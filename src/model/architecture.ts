// What one architecture file provides: the names it goes by, and the traits that set it apart, as data.

import type { OpenedModel } from '../weights/open-model.ts';
import {
  type Config,
  configError,
  fieldOf,
  optionalCount,
  optionalFlag,
  optionalSize,
  optionalText,
} from './config.ts';
import type { ListField } from './layer-lists.ts';
import type { ModelSizes } from './sizes.ts';
import type {
  Activation,
  AttentionSpec,
  GatedDeltaNetSpec,
  HeadNormSpec,
  NormSpec,
  RopeSpec,
  RouterSpec,
} from './spec.ts';
import type { FamilyNames, Naming } from './tensor-names.ts';

export interface LayerTraits {
  /** Index into `Traits.ropes`; absent: positions are not told. */
  readonly rope?: number | undefined;
  readonly window?: number | undefined;
  readonly chunk?: number | undefined;
  /** Experts in place of one feed-forward. */
  readonly experts?: boolean;
  /** In place of attention. */
  readonly mixer?: 'gated-delta-net' | 'short-conv' | 'mamba2';
  /** Sizes that are not those of all layers. */
  readonly headSize?: number | undefined;
  readonly kvHeadCount?: number | undefined;
  readonly ffnSize?: number | undefined;
  readonly gateCutoff?: number | undefined;
  /** Keys and values are those of an earlier layer. */
  readonly cacheOf?: number | undefined;
  /** Values are keys before their norm; or where the file stores no values. */
  readonly valuesAreKeys?: boolean | 'unless-stored';
  /** Where not all layers are alike. */
  readonly queryKeyNorm?: Traits['queryKeyNorm'];
  readonly growth?: AttentionSpec['growth'] | undefined;
  /** Attention reads the residual stream as it is, where others read it behind a norm. */
  readonly unnormed?: boolean;
}

/** Everything left out is off: no biases, no further norms, separate projections, scale 1. */
export interface Traits {
  readonly ropes: readonly RopeSpec[];
  readonly layers: readonly LayerTraits[];
  readonly activation: Activation;
  readonly attentionScale: number;
  /** Tokens see those behind them, too: texts are embedded, not continued. */
  readonly bidirectional?: boolean;
  readonly attentionSoftcap?: number | undefined;
  readonly logitSoftcap?: number | undefined;
  readonly logitScale?: number | undefined;
  readonly embeddingScale?: number | undefined;
  /** Factor on what branches add to the residual stream. */
  readonly residualScale?: number | undefined;
  readonly norm?: NormSpec['kind'];
  readonly normBias?: boolean;
  readonly normOffset?: number;
  /** Where norms stand: before each branch, unless it is said; or over the residual stream, once a branch is added. */
  readonly norms?: 'before' | 'around' | 'after' | 'over-stream';
  /** Embeddings are normalized before the first layer. */
  readonly embeddingNorm?: boolean;
  /** States are as the last layer leaves them. */
  readonly noFinalNorm?: boolean;
  /** Rows of tables that are added to embeddings: by position, and of kinds of text. */
  readonly positionRows?: number | undefined;
  readonly textKindRows?: number | undefined;
  /** Attention and feed-forward read the same rows, behind one norm. */
  readonly parallel?: boolean;
  /** Over what; or over each head without weights. */
  readonly queryKeyNorm?: HeadNormSpec['over'] | 'unscaled' | undefined;
  readonly normsAfterRope?: boolean;
  /** Heads of values are normalized, without weights. */
  readonly valueNorm?: boolean;
  readonly sinks?: boolean;
  /** Each head of q is followed by the gate of its output. */
  readonly attentionGate?: boolean;
  readonly growth?: AttentionSpec['growth'] | undefined;
  /** q, k and v in one tensor; gate and up in one. */
  readonly fusedQueryKeyValue?: boolean;
  readonly fusedGateUp?: boolean;
  readonly queryKeyValueBias?: boolean;
  readonly outputBias?: boolean;
  readonly ffnBias?: boolean;
  /** The feed-forward has no gate. */
  readonly ungated?: boolean;
  /** q and k rows stored for rotary pairs (2i, 2i + 1). */
  readonly interleavedPairs?: boolean;
  readonly experts?: ExpertTraits;
  /** Values of a token's input to each layer. */
  readonly perLayerInputSize?: number | undefined;
  /** Tokens that have one of their own; all, unless it is said. */
  readonly perLayerInputRows?: number | undefined;
  /** Of a low-rank map beside attention; the residual stream is then halved in its square. */
  readonly laurel?: number | undefined;
  /** Residual streams, where there are several. */
  readonly streamCount?: number | undefined;
  /** What further streams are told has factors. */
  readonly streamToldScales?: boolean;
  /** Files may hold a factor on the residual stream behind each layer. */
  readonly layerScales?: boolean;
  readonly gatedDeltaNet?: GatedDeltaNetTraits;
  /** Attention is MLA. */
  readonly mla?: MlaTraits;
  readonly shortConv?: ShortConvTraits;
  readonly mamba2?: Mamba2Traits;
  /** Where it is not the one that the file gives. */
  readonly ffnSize?: number;
  /** Names of tensors that differ from what is usual. */
  readonly names?: FamilyNames;
}

export interface ExpertTraits {
  readonly count: number;
  readonly size: number;
  readonly router: Omit<RouterSpec, 'linear' | 'routingBias' | 'expertScales' | 'norm'>;
  /** The router looks at the residual stream behind a norm of its own, with a factor on its weights. */
  readonly routerNorm?: { readonly factor: number };
  readonly expertScales?: boolean;
  /** The layer's feed-forward stands beside them, each behind norms of its own. */
  readonly beside?: boolean;
  readonly routerBias?: boolean;
  /** In some families mlx-lm leaves it out of its folders, and computes without it. */
  readonly routingBias?: boolean | 'not-in-mlx';
  readonly biases?: boolean;
  /** Where gates and ups share a tensor: rows by turns, not all gates of an expert first. */
  readonly alternatingGateUp?: boolean;
  /** Tensors of all experts hold each matrix with its inputs as rows. */
  readonly transposed?: boolean;
  readonly scalesInput?: boolean;
  /** A feed-forward for every row beside them; it may have a share of its own for each row. */
  readonly shared?: { readonly size: number; readonly gated: boolean; readonly fused?: boolean } | undefined;
}

export interface MlaTraits {
  /** Of what queries are made of, where it is not the input. */
  readonly qLoraRank?: number | undefined;
  readonly kvLoraRank: number;
  readonly qkNopeHeadDim: number;
  readonly qkRopeHeadDim: number;
  readonly vHeadDim: number;
}

export interface GatedDeltaNetTraits {
  readonly keyHeads: number;
  readonly keySize: number;
  readonly valueHeads: number;
  readonly valueSize: number;
  /** Of the convolution. */
  readonly length: number;
  readonly sharing: GatedDeltaNetSpec['sharing'];
  /** Large projections, and small ones, lie in one tensor, key head by key head. */
  readonly largeByKeyHead: boolean;
  readonly smallByKeyHead: boolean;
  readonly logarithmicRates: boolean;
}

export interface ShortConvTraits {
  readonly length: number;
  readonly bias: boolean;
}

export interface Mamba2Traits {
  readonly heads: number;
  readonly headSize: number;
  readonly stateSize: number;
  readonly groups: number;
  /** Of the convolution. */
  readonly length: number;
  readonly convolutionBias: boolean;
  readonly projectionBias: boolean;
  readonly logarithmicRates: boolean;
}

/** Where a model comes from, as an architecture sees it. */
export interface ModelSource {
  readonly config: Config;
  readonly sizes: ModelSizes;
  /** Who named and sorted the tensors; the header is in the words of `opened.format`. */
  readonly naming: Naming;
  readonly opened: OpenedModel;
}

export interface Architecture {
  readonly name: string;
  /** `model_type` values of config.json. */
  readonly modelTypes: readonly string[];
  /** `general.architecture` values of GGUF files. */
  readonly ggufNames: readonly string[];
  /** Values of config.json fields that files of this architecture leave out. */
  readonly defaults: Readonly<Record<string, unknown>>;
  /** The same of GGUF files, under the names of config.json. */
  readonly ggufDefaults?: Readonly<Record<string, unknown>>;
  /** Other names that config.json files give to fields, under the usual ones; the first that a file has counts. */
  readonly otherNames?: Readonly<Record<string, readonly string[]>>;
  /** Fields that files may give for each layer. */
  readonly layerLists?: readonly ListField[];
  traits(source: ModelSource): Traits;
}

const activations: Readonly<Record<string, Activation>> = {
  silu: 'silu',
  swish: 'silu',
  gelu: 'gelu',
  gelu_pytorch_tanh: 'gelu-tanh',
  gelu_new: 'gelu-tanh',
};

export function activationOf(config: Config, field: string, absent: Activation): Activation {
  const name = optionalText(config, field);
  if (name === undefined) return absent;
  const activation = activations[name];
  if (activation !== undefined) return activation;
  throw configError(
    config,
    field,
    `activation "${name}" is not supported`,
    `Use a model with one of: ${Object.keys(activations).join(', ')}.`,
  );
}

/** Biases as files tell of them: of q, k and v, of the output, which is like those unless it is said, of the feed-forward. */
export function biasesOf(
  config: Config,
): Required<Pick<Traits, 'queryKeyValueBias' | 'outputBias' | 'ffnBias'>> {
  const flag = (...fields: readonly string[]): boolean | undefined =>
    fields.map((field) => optionalFlag(config, field)).find((value) => value !== undefined);
  const queryKeyValueBias = flag('use_bias', 'attention_bias') ?? false;
  return {
    queryKeyValueBias,
    outputBias: flag('use_bias', 'attention_output_bias', 'attention_out_bias') ?? queryKeyValueBias,
    ffnBias: flag('use_bias', 'mlp_bias') ?? false,
  };
}

/** Layers that are all alike. */
export function alikeLayers(sizes: ModelSizes, window?: number): LayerTraits[] {
  return Array.from({ length: sizes.layerCount }, () => ({ rope: 0, window }));
}

/** Which layers see a window only: the file's own list, or the architecture's rule. */
export function slidingLayers(
  { config, sizes }: ModelSource,
  rule: (index: number) => boolean,
  sliding = 'sliding_attention',
): readonly boolean[] {
  const types = fieldOf(config, 'layer_types');
  if (types === undefined) return Array.from({ length: sizes.layerCount }, (_, index) => rule(index));
  const known = ['full_attention', sliding];
  if (!Array.isArray(types) || types.length !== sizes.layerCount || !types.every((t) => known.includes(t))) {
    throw configError(
      config,
      'layer_types',
      `must name one of ${known.join(', ')} for each of the ${sizes.layerCount} layers`,
      'Use a model of a supported kind, or correct the field.',
    );
  }
  return types.map((type) => type === sliding);
}

/** Layers of two kinds, by the file's own list, or with every so many layers one that sees all tokens. */
export function mixedLayers(
  source: ModelSource,
  period: number,
  { sliding, full }: { readonly sliding: LayerTraits; readonly full: LayerTraits },
): LayerTraits[] {
  const { config } = source;
  const given =
    optionalSize(config, 'sliding_window_pattern') ?? optionalSize(config, '_sliding_window_pattern');
  const slides = slidingLayers(source, (index) => (index + 1) % (given ?? period) !== 0);
  return slides.map((one) => (one ? sliding : full));
}

/** Which layers are told positions: by the file's own list of ones and zeros, or all but every so many layers. */
export function rotatedLayers({ config, sizes }: ModelSource, period: number): readonly boolean[] {
  const interval = optionalSize(config, 'no_rope_layer_interval') ?? period;
  const given = fieldOf(config, 'no_rope_layers');
  if (given === undefined || (Array.isArray(given) && given.length === 0)) {
    return Array.from({ length: sizes.layerCount }, (_, index) => (index + 1) % interval !== 0);
  }
  if (
    Array.isArray(given) &&
    given.length >= sizes.layerCount &&
    given.every((one) => one === 0 || one === 1)
  ) {
    return given.slice(0, sizes.layerCount).map((one) => one === 1);
  }
  throw configError(
    config,
    'no_rope_layers',
    `must hold 1 or 0 for each of the ${sizes.layerCount} layers`,
    'Correct the field.',
  );
}

/** The sliding window's length, where the file gives one; 0 stands for none. */
export function windowOf(config: Config): number | undefined {
  return optionalCount(config, 'sliding_window') || undefined;
}
