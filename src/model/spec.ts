// ModelSpec: everything a backend needs to know of a model, as data. Kernels never see a model's name.
// Its leaves are linear maps, norms, vectors and tables; `mapLeaves` makes of a spec the same tree with other leaves.

import type { CacheSpec, RecurrentStateSpec } from './layer-builder.ts';
import type { AltUpOfLayer, AltUpSpec } from './layers/altup.ts';
import type { AttentionSpec } from './layers/attention.ts';
import type { GatedDeltaNetSpec } from './layers/gated-delta-net.ts';
import type { LaurelSpec } from './layers/laurel.ts';
import type { Mamba2Spec } from './layers/mamba2.ts';
import type { MlaSpec } from './layers/mla.ts';
import type { MlpSpec } from './layers/mlp.ts';
import type { MoeSpec } from './layers/moe.ts';
import type { MtpOfLayer } from './layers/mtp.ts';
import type { PerLayerInputSpec, PerLayerInputsSpec } from './layers/per-layer-inputs.ts';
import type { ShortConvSpec } from './layers/short-conv.ts';
import type { AdditionSpec, LinearSpec, NormSpec, TableSpec } from './leaves.ts';
import type { RopeSpec } from './rope.ts';
import type { VisionSpec } from './vision/vision-spec.ts';

export type { CacheSpec, RecurrentStateSpec } from './layer-builder.ts';
export type { AltUpSpec } from './layers/altup.ts';
export type { AttentionSpec, HeadNormSpec, StoredSpec } from './layers/attention.ts';
export type { ConvolutionSpec } from './layers/convolution.ts';
export type { GatedDeltaNetSpec } from './layers/gated-delta-net.ts';
export type { LaurelSpec } from './layers/laurel.ts';
export type { Mamba2Spec } from './layers/mamba2.ts';
export type { MlaSpec } from './layers/mla.ts';
export type { Activation, ClampedActivation, MlpSpec } from './layers/mlp.ts';
export type { MoeSpec, RouterSpec } from './layers/moe.ts';
export type { PerLayerInputSpec, PerLayerInputsSpec } from './layers/per-layer-inputs.ts';
export type { ShortConvSpec } from './layers/short-conv.ts';
export type {
  AdditionSpec,
  InterleavedHeads,
  LinearSpec,
  MatrixSpec,
  NormSpec,
  RowSlice,
  TableSpec,
  VectorSpec,
} from './leaves.ts';
export type { RopeSpec } from './rope.ts';

export type BodySpec =
  | AttentionSpec
  | MlaSpec
  | MlpSpec
  | MoeSpec
  | PerLayerInputSpec
  | LaurelSpec
  | GatedDeltaNetSpec
  | ShortConvSpec
  | Mamba2Spec;

/** Bodies that keep a recurrent state in place of KV: `state` is an index into `ModelSpec.recurrentStates`. */
export type RecurrentSpec = Extract<BodySpec, { readonly state: number }>;

/** Reads the residual stream, after a norm. */
export interface PartSpec {
  readonly input?: NormSpec;
  readonly body: BodySpec;
  readonly output?: NormSpec;
}

/** Adds to the residual stream what its parts give together. */
export interface BranchSpec {
  readonly parts: readonly PartSpec[];
  readonly output?: NormSpec;
  /** Factor on what is added. */
  readonly scale?: number;
  /** Factor on the residual stream once it is added, and a norm of that. */
  readonly streamScale?: number;
  readonly streamNorm?: NormSpec;
}

export type LayerAltUpSpec = AltUpOfLayer<PartSpec>;

export interface LayerSpec {
  readonly branches: readonly BranchSpec[];
  readonly altUp?: LayerAltUpSpec;
}

export type MtpSpec = MtpOfLayer<LayerSpec>;

/** What an adapter adds to the embedding of a token, before its scale: `scale * up(row)` of the token's row in a table. */
export interface EmbeddingAdditionSpec extends Pick<AdditionSpec, 'adapter' | 'rank' | 'scale'> {
  readonly table: TableSpec;
  /** As many rows as the residual stream has values, of `rank` columns. */
  readonly up: LinearSpec;
}

export interface ModelSpec {
  readonly architecture: string;
  readonly hiddenSize: number;
  readonly vocabSize: number;
  /** Positions the model was made for. */
  readonly contextLength: number;
  readonly normEpsilon: number;
  readonly embeddingScale: number;
  readonly ropes: readonly RopeSpec[];
  readonly caches: readonly CacheSpec[];
  readonly recurrentStates: readonly RecurrentStateSpec[];
  /** Names of adapters, of which every sequence uses one or none; absent: there are none. */
  readonly adapters?: readonly string[];
  readonly embedding: TableSpec;
  /** What adapters add for tokens of sequences that use them; at most one of each. */
  readonly embeddingAdditions?: readonly EmbeddingAdditionSpec[];
  /** A row for each position, added to the embedding of the token that stands there. */
  readonly positions?: TableSpec;
  /** A row for each kind of text, of which there is one here: the first is added to every embedding. */
  readonly textKinds?: TableSpec;
  readonly embeddingNorm?: NormSpec;
  /** All tokens of a prompt with images see each other, where layers have `imagesBothWays`: it is computed in one step, and its KV are of it alone. */
  readonly prefixLm?: true;
  readonly perLayerInputs?: PerLayerInputsSpec;
  readonly altUp?: AltUpSpec;
  readonly layers: readonly LayerSpec[];
  /** After the last layer; absent: states are as it leaves them. */
  readonly finalNorm?: NormSpec;
  /** A tied head names the embedding's tensor. */
  readonly head: LinearSpec;
  readonly logitScale?: number;
  /** `cap * tanh(logit / cap)`, where set. */
  readonly logitSoftcap?: number;
  /** Drafts tokens in speculative decoding. Its KV cache is the last of `caches`. Absent where it is not asked for, or there is none. */
  readonly mtp?: MtpSpec;
  /** Why the head that the file has is left out, where it was asked for. */
  readonly mtpProblem?: string;
  /** The file holds no head, and the one above is never used: texts are embedded, not continued. */
  readonly headless?: true;
  /** Absent where images are not asked for, or not understood. */
  readonly vision?: VisionSpec;
  /** The file holds more than this, for images or sound: only texts are understood. */
  readonly textOnly?: true;
}
