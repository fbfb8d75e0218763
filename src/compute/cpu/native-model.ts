// A model as the addon is told of it: its spec, with matrices by number and vectors as they are read from the file.

import type {
  AttentionSpec,
  CacheSpec,
  ClampedActivation,
  ExpertsSpec,
  HeadNormSpec,
  ModelSpec,
  RouterSpec,
} from '../../model/spec.ts';
import type { NormWeights } from '../../model/weight-reader.ts';

export interface NativeLinear {
  /** What `addMatrix` gave. */
  readonly matrix: number;
  /** Of all members, one after the other. */
  readonly bias: Float32Array | undefined;
}

export interface NativeHeadNorm {
  readonly norm: NormWeights;
  readonly over: HeadNormSpec['over'];
}

export interface NativeRope {
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
    | 'window'
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

export type NativeActivation =
  | { readonly kind: 'silu' | 'gelu-tanh' | 'gelu' }
  | ({ readonly kind: 'clamped' } & ClampedActivation);

export interface NativeFeedForward {
  readonly kind: 'feed-forward';
  readonly size: number;
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

export type NativeBody = NativeAttention | NativeFeedForward | NativeExperts;

export interface NativePart {
  readonly input: NormWeights | undefined;
  readonly body: NativeBody;
  readonly output: NormWeights | undefined;
}

export interface NativeBranch {
  readonly parts: readonly NativePart[];
  readonly output: NormWeights | undefined;
  readonly scale: number | undefined;
}

export interface NativeModel
  extends Pick<
    ModelSpec,
    'hiddenSize' | 'vocabSize' | 'normEpsilon' | 'embeddingScale' | 'logitScale' | 'logitSoftcap'
  > {
  readonly ropes: readonly NativeRope[];
  readonly caches: readonly CacheSpec[];
  readonly embedding: number;
  /** Of all layers, one after the other. */
  readonly branches: readonly NativeBranch[];
  readonly finalNorm: NormWeights;
  readonly head: NativeLinear;
}
