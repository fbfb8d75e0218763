// ModelSpec: everything a backend needs to know of a model, as data. Kernels never see a model's name.
// Its leaves are linear maps, norms, vectors and tables; `mapLeaves` makes of a spec the same tree with other leaves.

/** Rows of a tensor; fused projections are several slices of one tensor. The tensor's outer dimensions count as rows. */
export interface RowSlice {
  readonly tensor: string;
  readonly firstRow: number;
  readonly rows: number;
  /** The slice is made of runs of so many rows, one every so many rows of the tensor; absent: all in one run. */
  readonly runs?: { readonly rows: number; readonly every: number };
  /**
   * The tensor stores matrices of so many rows with their inputs as rows: readers turn them, quantized ones as floats.
   * Matrices stand one behind the other, or one every so many of the tensor's rows.
   */
  readonly transposed?: { readonly rows: number; readonly every?: number };
  /**
   * Set where the rows of each head are stored for rotary pairs (2i, 2i+1). Readers hand them on in the
   * order of pairs (i, i + half), the only one that backends know.
   */
  readonly interleaved?: InterleavedHeads;
}

export interface InterleavedHeads {
  readonly heads: number;
  /** Values of a head that are rotated, the first ones; the others stay where they are. */
  readonly rotated: number;
}

export interface MatrixSpec {
  readonly weight: RowSlice;
  readonly columns: number;
}

/** A linear map: `rows` outputs from `columns` inputs. */
export interface LinearSpec extends MatrixSpec {
  readonly leaf: 'linear';
  /** The rows are those of so many maps in a row, each of which has an input of its own; absent: one. */
  readonly members?: number;
  readonly bias?: RowSlice;
  /** What adapters add for rows that use them; at most one of each. */
  readonly additions?: readonly AdditionSpec[];
}

/** `scale * up(down(x))`; with a magnitude (DoRA) outputs are scaled to it, row by row of the sum of both matrices. */
export interface AdditionSpec {
  /** Index into `ModelSpec.adapters`. */
  readonly adapter: number;
  readonly rank: number;
  readonly scale: number;
  /** `rank` rows of as many columns as the map has. */
  readonly down: RowSlice;
  /** As many rows as the map has, of `rank` columns. */
  readonly up: RowSlice;
  /** One value for each row of the map: see output-factors.ts. */
  readonly magnitude?: RowSlice;
}

/** A table of rows, of which single ones are read. */
export interface TableSpec extends RowSlice {
  readonly leaf: 'table';
  readonly columns: number;
}

export interface VectorSpec {
  readonly leaf: 'vector';
  readonly tensor: string;
  readonly size: number;
  /** The file stores logarithms: a value is `-exp(stored)`. */
  readonly negativeExponential?: true;
}

/** What an adapter adds to the embedding of a token, before its scale: `scale * up(row)` of the token's row in a table. */
export interface EmbeddingAdditionSpec extends Pick<AdditionSpec, 'adapter' | 'rank' | 'scale'> {
  /** A row of `rank` values for each token. */
  readonly table: TableSpec;
  /** As many rows as the residual stream has values, of `rank` columns. */
  readonly up: LinearSpec;
}

/** Of the mean square, or of the variance around the mean: `value * weight + bias`. */
export interface NormSpec {
  readonly leaf: 'norm';
  readonly kind: 'rms' | 'layer';
  /** Of all weights. */
  readonly size: number;
  /** Absent: not scaled. Several tensors stand one behind the other. */
  readonly weight?: string | readonly string[];
  readonly bias?: string;
  /** Added to every weight on reading: 1 where a file stores them around zero. */
  readonly offset?: number;
  /** On every weight, behind the offset, on reading. */
  readonly factor?: number;
  /** As of rows that they are the weights of. */
  readonly interleaved?: InterleavedHeads;
}

/** Rotary embedding over the first `2 * inverseFrequencies.length` values of a head, in pairs (i, i + half). */
export interface RopeSpec {
  readonly inverseFrequencies: readonly number[];
  /** Factor on cosine and sine (yarn, longrope); 1 elsewhere. */
  readonly magnitude: number;
}

/** What one block of the KV cache holds of each token for one attention; several may read it. */
export interface CacheSpec {
  readonly headCount: number;
  readonly headSize: number;
  /** Values are the first so many of each key, and keys are all that is stored; absent: they are as large as keys. */
  readonly valuesInKeys?: number;
}

/**
 * A norm over each head of queries or keys, with the same weights for all or weights of its own for each; or over all of
 * them together.
 */
export interface HeadNormSpec {
  readonly norm: NormSpec;
  readonly over: 'head' | 'each' | 'all';
}

export interface AttentionSpec {
  readonly kind: 'attention';
  readonly headCount: number;
  readonly headSize: number;
  /** Index into `ModelSpec.caches`: where its keys and values lie. */
  readonly cache: number;
  readonly query: LinearSpec;
  /** Absent where they are those of an attention before, which shares the cache. */
  readonly stored?: StoredSpec;
  readonly output: LinearSpec;
  readonly queryNorm?: HeadNormSpec;
  /** Norms of queries and keys come after the rotary embedding, not before. */
  readonly normsAfterRope?: true;
  /** Index into `ModelSpec.ropes`; absent: positions are not told. */
  readonly rope?: number;
  /** A token also sees those behind it, to the end of its text, which is all in one step. */
  readonly bidirectional?: true;
  /** A token sees itself and at most `window - 1` tokens on each side that it sees; absent: all of them. */
  readonly window?: number;
  /** A token sees tokens of its own chunk of so many alone, none after itself; absent: of all chunks. */
  readonly chunk?: number;
  /** Factor on q·k before the softmax. */
  readonly scale: number;
  /** `cap * tanh(score / cap)`, where set. */
  readonly softcap?: number;
  /** A score for each head that takes part in the softmax and stands for no token. */
  readonly sinks?: VectorSpec;
  /** What is attended to is multiplied by the sigmoid of this. */
  readonly gate?: LinearSpec;
  /** Queries grow with their position: `1 + weight * log(1 + floor((position + shift) / length))`. */
  readonly growth?: { readonly weight: number; readonly length: number; readonly shift: number };
}

/**
 * MLA: of each token `rank` values are stored, of which keys and values of all heads could be made,
 * and behind them `qkRopeHeadDim` values of a key that heads share. Keys are never made: queries are brought to the latent
 * instead, what they gather there is brought to values. Prompts and single tokens are computed alike.
 */
export interface MlaSpec {
  readonly kind: 'mla';
  readonly headCount: number;
  /** Of one head with `kvLoraRank + qkRopeHeadDim` values, the first `kvLoraRank` of which are the values. */
  readonly cache: number;
  readonly kvLoraRank: number;
  /** Values of a query that positions do not turn, and values that they do. */
  readonly qkNopeHeadDim: number;
  readonly qkRopeHeadDim: number;
  readonly vHeadDim: number;
  /** What queries are made of, where that is not the input itself: `norm(down(x))`. */
  readonly queryInput?: { readonly down: LinearSpec; readonly norm: NormSpec };
  /** `qkNopeHeadDim` rows a head. */
  readonly query: LinearSpec;
  /** `qkRopeHeadDim` rows a head. */
  readonly queryRope: LinearSpec;
  readonly kvDown: LinearSpec;
  readonly kvNorm: NormSpec;
  readonly keyRope: LinearSpec;
  /** For each head `kvLoraRank` rows, over the `qkNopeHeadDim` values of its own query. */
  readonly keyUp: LinearSpec;
  /** For each head `vHeadDim` rows, over the `kvLoraRank` values that it gathered. */
  readonly valueUp: LinearSpec;
  readonly output: LinearSpec;
  /** Index into `ModelSpec.ropes`. */
  readonly rope: number;
  /** Factor on q·k before the softmax. */
  readonly scale: number;
}

/** Keys and values that an attention makes of its input and stores. */
export interface StoredSpec {
  readonly key: LinearSpec;
  /** Absent: the keys, before their norm and rotation. */
  readonly value?: LinearSpec;
  readonly keyNorm?: HeadNormSpec;
  readonly valueNorm?: HeadNormSpec;
}

/** `x * sigmoid(slope * x) * (up + 1)`, with x held below the limit and up within it. */
export interface ClampedActivation {
  readonly limit: number;
  readonly slope: number;
}

export type Activation = 'silu' | 'gelu-tanh' | 'gelu' | ClampedActivation;

export interface MlpSpec {
  readonly kind: 'mlp';
  readonly size: number;
  readonly activation: Activation;
  /** Absent: `down(activation(up))` instead of `down(activation(gate) * up)`. */
  readonly gate?: LinearSpec;
  readonly up: LinearSpec;
  readonly down: LinearSpec;
  /** Gates are lowered by their mean and so many of their standard deviations, and are 0 where that is below 0. */
  readonly gateCutoff?: number;
  /** One value a row, whose sigmoid is a factor on the output. */
  readonly share?: LinearSpec;
}

/** How rows choose their experts, and how much each counts. */
export interface RouterSpec {
  readonly linear: LinearSpec;
  readonly score: 'softmax' | 'sigmoid';
  /** Experts of each row. */
  readonly used: number;
  /** Added to scores for the choice alone. */
  readonly routingBias?: VectorSpec;
  /** Only the best groups of experts take part: by their best score, or the sum of their best two. */
  readonly groups?: { readonly count: number; readonly used: number; readonly by: 'best' | 'best-two' };
  /** The scores of chosen experts are divided by their sum. */
  readonly normalized: boolean;
  /** Factor on what experts give. */
  readonly scale: number;
  /** A factor for each expert. */
  readonly expertScales?: VectorSpec;
  /** Rows as the router sees them, where that is not what experts see; always of the residual stream. */
  readonly norm?: NormSpec;
}

export interface MoeSpec {
  readonly kind: 'moe';
  readonly router: RouterSpec;
  /** Alike but for their weights. */
  readonly experts: readonly MlpSpec[];
  /** Scores are factors on what experts read, not on what they give. */
  readonly scalesInput?: true;
}

/** A causal convolution of each channel with its own past: `length` weights a channel, the newest last. */
export interface ConvolutionSpec {
  readonly weight: VectorSpec;
  readonly bias?: VectorSpec;
  readonly length: number;
}

/** Values that a body without KV keeps of all tokens before: what is convolved next, and what it has learnt. */
export interface RecurrentStateSpec {
  readonly size: number;
}

/**
 * Gated delta net: each value head keeps a matrix that maps keys to values. For every token it forgets by `exp(decay)`,
 * then corrects what the key maps to by a share of the difference to the value, then is asked with the query.
 */
export interface GatedDeltaNetSpec {
  readonly kind: 'gated-delta-net';
  /** Index into `ModelSpec.recurrentStates`. */
  readonly state: number;
  readonly keyHeads: number;
  readonly keySize: number;
  readonly valueHeads: number;
  readonly valueSize: number;
  /** Which value heads share a key head: as many in a row, or those so many apart. */
  readonly sharing: 'neighbours' | 'strided';
  readonly query: LinearSpec;
  readonly key: LinearSpec;
  readonly value: LinearSpec;
  /** Over the channels of queries, keys and values, in this order. */
  readonly convolution: ConvolutionSpec;
  /** One value a head: the sigmoid of it is the share of a correction. */
  readonly share: LinearSpec;
  /** One value a head: `decay = rate * softplus(value + bias)`. */
  readonly decay: LinearSpec;
  readonly decayBias: VectorSpec;
  /** Negative numbers. */
  readonly decayRate: VectorSpec;
  /** Of each head's output, which is then multiplied by `silu(gate)`. */
  readonly norm: NormSpec;
  readonly gate: LinearSpec;
  readonly output: LinearSpec;
}

/** A convolution between two gates: `output(after * convolution(before * value))`. */
export interface ShortConvSpec {
  readonly kind: 'short-conv';
  /** Index into `ModelSpec.recurrentStates`. */
  readonly state: number;
  readonly size: number;
  readonly before: LinearSpec;
  readonly after: LinearSpec;
  readonly value: LinearSpec;
  readonly convolution: ConvolutionSpec;
  readonly output: LinearSpec;
}

/**
 * State space (Mamba 2): each head keeps a matrix of its values by the values of a state. For every token it forgets by
 * `exp(rate * step)`, adds `step * value * write`, and is read with `read`; a share of the value is added.
 */
export interface Mamba2Spec {
  readonly kind: 'mamba2';
  /** Index into `ModelSpec.recurrentStates`. */
  readonly state: number;
  readonly heads: number;
  readonly headSize: number;
  readonly stateSize: number;
  /** Heads of a group, as many in a row, write and read alike. */
  readonly groups: number;
  readonly value: LinearSpec;
  readonly write: LinearSpec;
  readonly read: LinearSpec;
  /** Over the channels of values, writes and reads, in this order; then silu. */
  readonly convolution: ConvolutionSpec;
  /** One value a head: `step = softplus(value + bias)`. */
  readonly step: LinearSpec;
  readonly stepBias: VectorSpec;
  /** Negative numbers. */
  readonly rate: VectorSpec;
  /** One factor a head: the share of the value that is added. */
  readonly skip: VectorSpec;
  /** What is read is multiplied by `silu(gate)`, then normalized: all heads together. */
  readonly gate: LinearSpec;
  readonly norm: NormSpec;
  readonly output: LinearSpec;
}

/** `output(activation(gate(x)) * input)`, with the token's own input to this layer. */
export interface PerLayerInputSpec {
  readonly kind: 'per-layer-input';
  /** Which of `ModelSpec.perLayerInputs` it is. */
  readonly index: number;
  readonly activation: Activation;
  readonly gate: LinearSpec;
  readonly output: LinearSpec;
}

/** `x + norm(up(down(x)))`. */
export interface LaurelSpec {
  readonly kind: 'laurel';
  readonly down: LinearSpec;
  readonly up: LinearSpec;
  readonly norm: NormSpec;
}

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

/** Reads the residual stream, behind a norm. */
export interface PartSpec {
  readonly input?: NormSpec;
  readonly body: BodySpec;
  readonly output?: NormSpec;
}

/** Adds to the residual stream what its parts give together. */
export interface BranchSpec {
  readonly parts: readonly PartSpec[];
  readonly output?: NormSpec;
  /** Factor on what is added; 1 where absent. */
  readonly scale?: number;
  /** Factor on the residual stream once it is added; 1 where absent. */
  readonly streamScale?: number;
  /** Of the residual stream once it is added. */
  readonly streamNorm?: NormSpec;
}

export interface LayerSpec {
  /** One after the other. */
  readonly branches: readonly BranchSpec[];
  /** In models of several residual streams. */
  readonly altUp?: LayerAltUpSpec;
}

/**
 * Before its branches, which change the first stream alone, a layer predicts every stream of all; behind them, it corrects
 * all by what the first one has become. Coefficients are made of `features = tanh(linear(norm(first stream)))`, one value
 * for each of `count` streams: for predictions of the stream as it comes, for corrections as branches left it.
 */
export interface LayerAltUpSpec {
  readonly norm: NormSpec;
  readonly features: LinearSpec;
  /** `count * count` of them: stream i is predicted as `stream[i] + Σ coefficient[i * count + j] * stream[j]`. */
  readonly prediction: LinearSpec;
  /** One for each stream: it becomes `prediction + (1 + coefficient) * (first stream - its prediction)`. */
  readonly correction: LinearSpec;
  /** What all streams but the first have added in the end, of the first one. */
  readonly perLayer: PartSpec;
  /** On the first stream as that sees it: a factor for each value. */
  readonly perLayerScale?: VectorSpec;
}

/** Further residual streams beside the first. */
export interface AltUpSpec {
  readonly count: number;
  /** Make the others of the embedding, which is the first; then they are scaled to its root mean square. */
  readonly spread: readonly LinearSpec[];
  /** Bring them back behind the last layer, and scale them so again: the mean of all goes on. */
  readonly gather: readonly LinearSpec[];
}

/**
 * Inputs of single layers, `count` runs of `size` values a token: the token's row of a table, and behind a norm over each
 * run a linear map of its embedding as it enters the first layer.
 */
export interface PerLayerInputsSpec {
  readonly count: number;
  readonly size: number;
  /** Tokens beyond its rows have the first one. */
  readonly table: TableSpec;
  readonly tableScale: number;
  readonly projection: LinearSpec;
  /** Factor before the norm. */
  readonly projectionScale: number;
  readonly norm: NormSpec;
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
  /** Of embeddings and what is added to them. */
  readonly embeddingNorm?: NormSpec;
  readonly perLayerInputs?: PerLayerInputsSpec;
  readonly altUp?: AltUpSpec;
  readonly layers: readonly LayerSpec[];
  /** Behind the last layer; absent: states are as it leaves them. */
  readonly finalNorm?: NormSpec;
  /** The output head; a tied head names the embedding's tensor. */
  readonly head: LinearSpec;
  /** Factor on logits; 1 where absent. */
  readonly logitScale?: number;
  /** `cap * tanh(logit / cap)`, where set. */
  readonly logitSoftcap?: number;
  /** The file holds no head, and the one above is never used: texts are embedded, not continued. */
  readonly headless?: true;
  /** The file holds more than this, for images or sound: only texts are understood. */
  readonly textOnly?: true;
}
