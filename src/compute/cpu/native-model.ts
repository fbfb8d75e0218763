// A model as the addon is told of it: its spec, with matrices by number and vectors as they are read from the file.

import type {
  AdditionSpec,
  AttentionSpec,
  CacheSpec,
  ClampedActivation,
  ConvolutionSpec,
  DeltaNetSpec,
  EmbeddingAdditionSpec,
  ExpertsSpec,
  FeedForwardSpec,
  HeadNormSpec,
  LatentAttentionSpec,
  LayerInputSpec,
  LayerInputsSpec,
  LowRankSpec,
  ModelSpec,
  RouterSpec,
  ShortConvolutionSpec,
  StateSpaceSpec,
} from '../../model/spec.ts';
import type { NormWeights } from '../../model/weight-reader.ts';

export interface NativeLinear {
  /** What `addMatrix` gave. */
  readonly matrix: number;
  /** Of all members, one after the other. */
  readonly bias: Float32Array | undefined;
  readonly additions: readonly NativeAddition[];
}

export interface NativeAddition extends Pick<AdditionSpec, 'adapter' | 'rank' | 'scale'> {
  /** Which members of the map it adds to; its matrices have a member for each. */
  readonly firstMember: number;
  readonly members: number;
  /** What `addMatrix` gave. */
  readonly down: number;
  readonly up: number;
  /** Both or none: one for each output, member after member. */
  readonly factors?: Float32Array;
  readonly shifts?: Float32Array;
}

interface NativeEmbeddingAddition extends Pick<EmbeddingAdditionSpec, 'adapter' | 'rank' | 'scale'> {
  /** What `addMatrix` gave. */
  readonly table: number;
  readonly up: number;
}

export interface NativeHeadNorm {
  readonly norm: NormWeights;
  readonly over: HeadNormSpec['over'];
}

interface NativeRope {
  readonly inverseFrequencies: Float64Array;
  readonly magnitude: number;
}

export interface NativeAttention
  extends Pick<
    AttentionSpec,
    | 'kind'
    | 'headCount'
    | 'headSize'
    | 'cache'
    | 'normsAfterRope'
    | 'rope'
    | 'bothSides'
    | 'window'
    | 'chunk'
    | 'scale'
    | 'softcap'
    | 'growth'
  > {
  readonly query: NativeLinear;
  readonly stored: NativeStored | undefined;
  readonly output: NativeLinear;
  readonly queryNorm: NativeHeadNorm | undefined;
  readonly sinks: Float32Array | undefined;
  readonly gate: NativeLinear | undefined;
}

export interface NativeStored {
  readonly key: NativeLinear;
  readonly value: NativeLinear | undefined;
  readonly keyNorm: NativeHeadNorm | undefined;
  readonly valueNorm: NativeHeadNorm | undefined;
}

export interface NativeLatentAttention
  extends Pick<
    LatentAttentionSpec,
    'kind' | 'headCount' | 'cache' | 'rank' | 'contentSize' | 'rotatedSize' | 'valueSize' | 'rope' | 'scale'
  > {
  readonly queryInput:
    | { readonly size: number; readonly down: NativeLinear; readonly norm: NormWeights }
    | undefined;
  readonly query: NativeLinear;
  readonly queryRotated: NativeLinear;
  readonly latent: NativeLinear;
  readonly latentNorm: NormWeights;
  readonly keyRotated: NativeLinear;
  /** Both have a member for each head. */
  readonly toLatent: NativeLinear;
  readonly toValues: NativeLinear;
  readonly output: NativeLinear;
}

export type NativeActivation =
  | { readonly kind: 'silu' | 'gelu-tanh' | 'gelu' }
  | ({ readonly kind: 'clamped' } & ClampedActivation);

export interface NativeFeedForward extends Pick<FeedForwardSpec, 'kind' | 'size' | 'gateCutoff'> {
  readonly activation: NativeActivation;
  readonly gate: NativeLinear | undefined;
  readonly up: NativeLinear;
  readonly down: NativeLinear;
  readonly share: NativeLinear | undefined;
}

export interface NativeRouter extends Pick<RouterSpec, 'score' | 'used' | 'groups' | 'normalized' | 'scale'> {
  readonly linear: NativeLinear;
  readonly choiceBias: Float32Array | undefined;
  readonly expertScales: Float32Array | undefined;
  readonly norm: NormWeights | undefined;
}

export interface NativeExperts extends Pick<ExpertsSpec, 'kind' | 'scalesInput'> {
  readonly count: number;
  readonly router: NativeRouter;
  /** Its matrices have a member for each expert. */
  readonly each: NativeFeedForward;
}

export interface NativeConvolution extends Pick<ConvolutionSpec, 'length'> {
  /** [channel][tokens, the newest last]. */
  readonly weights: Float32Array;
  readonly bias: Float32Array | undefined;
}

export interface NativeDeltaNet
  extends Pick<
    DeltaNetSpec,
    'kind' | 'memory' | 'keyHeads' | 'keySize' | 'valueHeads' | 'valueSize' | 'sharing'
  > {
  readonly query: NativeLinear;
  readonly key: NativeLinear;
  readonly value: NativeLinear;
  readonly convolution: NativeConvolution;
  readonly share: NativeLinear;
  readonly decay: NativeLinear;
  readonly decayBias: Float32Array;
  readonly rates: Float32Array;
  readonly norm: NormWeights;
  readonly gate: NativeLinear;
  readonly output: NativeLinear;
}

export interface NativeShortConvolution extends Pick<ShortConvolutionSpec, 'kind' | 'memory' | 'size'> {
  readonly before: NativeLinear;
  readonly after: NativeLinear;
  readonly value: NativeLinear;
  readonly convolution: NativeConvolution;
  readonly output: NativeLinear;
}

export interface NativeStateSpace
  extends Pick<StateSpaceSpec, 'kind' | 'memory' | 'heads' | 'headSize' | 'stateSize' | 'groups'> {
  readonly value: NativeLinear;
  readonly write: NativeLinear;
  readonly read: NativeLinear;
  readonly convolution: NativeConvolution;
  readonly step: NativeLinear;
  readonly stepBias: Float32Array;
  readonly rates: Float32Array;
  readonly skip: Float32Array;
  readonly gate: NativeLinear;
  readonly norm: NormWeights;
  readonly output: NativeLinear;
}

export interface NativeLayerInput extends Pick<LayerInputSpec, 'kind' | 'index'> {
  readonly activation: NativeActivation;
  readonly gate: NativeLinear;
  readonly output: NativeLinear;
}

export interface NativeLayerInputs
  extends Pick<LayerInputsSpec, 'count' | 'size' | 'tableScale' | 'projectionScale'> {
  /** What `addMatrix` gave. */
  readonly table: number;
  readonly tableRows: number;
  readonly projection: NativeLinear;
  readonly norm: NormWeights;
}

export interface NativeLowRank extends Pick<LowRankSpec, 'kind'> {
  readonly rank: number;
  readonly down: NativeLinear;
  readonly up: NativeLinear;
  readonly norm: NormWeights;
}

export type NativeBody =
  | NativeAttention
  | NativeLatentAttention
  | NativeFeedForward
  | NativeExperts
  | NativeDeltaNet
  | NativeShortConvolution
  | NativeStateSpace
  | NativeLayerInput
  | NativeLowRank;

export interface NativePart {
  readonly input: NormWeights | undefined;
  readonly body: NativeBody;
  readonly output: NormWeights | undefined;
}

export interface NativeBranch {
  readonly parts: readonly NativePart[];
  readonly output: NormWeights | undefined;
  readonly scale: number | undefined;
  readonly streamScale: number | undefined;
  readonly streamNorm: NormWeights | undefined;
}

export interface NativeLayerStreams {
  readonly norm: NormWeights;
  readonly features: NativeLinear;
  readonly prediction: NativeLinear;
  readonly correction: NativeLinear;
  readonly told: NativePart;
  readonly toldScale: Float32Array | undefined;
}

export interface NativeLayer {
  readonly branches: readonly NativeBranch[];
  readonly streams: NativeLayerStreams | undefined;
}

export interface NativeStreams {
  readonly spread: readonly NativeLinear[];
  readonly gather: readonly NativeLinear[];
}

export interface NativeModel
  extends Pick<
    ModelSpec,
    | 'hiddenSize'
    | 'vocabSize'
    | 'contextLength'
    | 'normEpsilon'
    | 'embeddingScale'
    | 'logitScale'
    | 'logitSoftcap'
  > {
  readonly ropes: readonly NativeRope[];
  readonly caches: readonly CacheSpec[];
  readonly embedding: number;
  readonly embeddingAdditions: readonly NativeEmbeddingAddition[];
  readonly positions: { readonly matrix: number; readonly rows: number } | undefined;
  readonly textKind: Float32Array | undefined;
  readonly embeddingNorm: NormWeights | undefined;
  readonly layerInputs: NativeLayerInputs | undefined;
  readonly streams: NativeStreams | undefined;
  readonly layers: readonly NativeLayer[];
  readonly finalNorm: NormWeights | undefined;
  readonly head: NativeLinear;
}
