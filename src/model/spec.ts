// ModelSpec: everything a backend needs to know of a model, as data. Kernels never see a model's name.

/** Consecutive rows of a tensor; fused projections are several slices of one tensor. */
export interface RowSlice {
  readonly tensor: string;
  readonly firstRow: number;
  readonly rows: number;
  /**
   * Set where the rows of each head are stored for rotary pairs (2i, 2i+1). Readers hand them on in the
   * order of pairs (i, i + half), the only one that backends know. The value is the number of heads.
   */
  readonly interleavedHeads?: number;
}

/** A linear map: `rows` outputs from `columns` inputs. */
export interface LinearSpec {
  readonly weight: RowSlice;
  readonly columns: number;
  readonly bias?: RowSlice;
}

/** Rotary embedding over the first `2 * inverseFrequencies.length` values of a head, in pairs (i, i + half). */
export interface RopeSpec {
  readonly inverseFrequencies: readonly number[];
  /** Factor on cosine and sine (yarn, longrope); 1 elsewhere. */
  readonly magnitude: number;
}

export interface LayerSpec {
  readonly attentionNorm: string;
  readonly query: LinearSpec;
  readonly key: LinearSpec;
  readonly value: LinearSpec;
  readonly output: LinearSpec;
  /** RMS norm over each head of q and k, before the rotary embedding. */
  readonly queryNorm?: string;
  readonly keyNorm?: string;
  /** RMS norm of a branch's output before it joins the residual stream. */
  readonly attentionPostNorm?: string;
  readonly ffnNorm: string;
  readonly gate: LinearSpec;
  readonly up: LinearSpec;
  readonly down: LinearSpec;
  readonly ffnPostNorm?: string;
  /** Index into `ModelSpec.ropes`. */
  readonly rope: number;
  /** A token sees itself and at most `window - 1` tokens before it; absent: all of them. */
  readonly window?: number;
}

export type Activation = 'silu' | 'gelu-tanh';

export interface ModelSpec {
  readonly architecture: string;
  readonly hiddenSize: number;
  readonly headCount: number;
  readonly kvHeadCount: number;
  readonly headSize: number;
  readonly ffnSize: number;
  readonly vocabSize: number;
  /** Positions the model was made for. */
  readonly contextLength: number;
  readonly normEpsilon: number;
  /** Added to every norm weight on reading: 1 where a file stores weights around zero. */
  readonly normOffset: number;
  readonly activation: Activation;
  readonly embeddingScale: number;
  /** Factor on q·k before the softmax. */
  readonly attentionScale: number;
  /** `cap * tanh(score / cap)` on attention scores and on logits, where set. */
  readonly attentionSoftcap?: number;
  readonly logitSoftcap?: number;
  readonly ropes: readonly RopeSpec[];
  readonly embedding: RowSlice;
  readonly layers: readonly LayerSpec[];
  readonly finalNorm: string;
  /** The output head; a tied head names the embedding's tensor. */
  readonly head: LinearSpec;
  /** The file holds no head, and the one above is never used: texts are embedded, not continued. */
  readonly headless?: true;
}
