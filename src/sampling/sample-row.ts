// The contract of a sampler: rows of logits in, one token or one error per row out. The oracle and native code give
// the same bits.

import type { SamplingParameters } from './parameters.ts';
import type { SeenTokens } from './token-counts.ts';

export interface SampleRow {
  readonly parameters: SamplingParameters;
  /** Required where a penalty is on (`needsCounts`). */
  readonly counts?: SeenTokens | undefined;
  /** Position in the sequence, prompt included, of the token to be sampled. */
  readonly position: number;
  /** Which of several answers to the same prompt. */
  readonly choice: number;
  readonly forbidden: readonly number[];
  /** Bit `id % 32` of word `id / 32` is set where a token is allowed. */
  readonly mask?: Uint32Array | undefined;
  /** A token that has come already: only how likely it was is asked for. */
  readonly given?: number | undefined;
  /** What DRY takes off the logits of tokens that would go on with a repetition. */
  readonly dry?: TokenPenalties | undefined;
  /** The surprise that mirostat allows; required where it is on. */
  readonly mu?: number | undefined;
}

/** The penalty of `tokens[i]` is `penalties[i]`; no token twice. */
export interface TokenPenalties {
  readonly tokens: readonly number[];
  readonly penalties: readonly number[];
}

export interface TokenLogprob {
  readonly token: number;
  /** ln of the model's probability before penalties, bias, masks and temperature; a float32. */
  readonly logprob: number;
}

export interface TokenLogprobs {
  readonly logprob: number;
  readonly top: readonly TokenLogprob[];
  /** Of a token that was given: its place among all, the likeliest first; from 1 on. */
  readonly rank?: number;
}

export interface SampledToken {
  readonly ok: true;
  readonly token: number;
  readonly logprobs?: TokenLogprobs;
  /** What mirostat allows the next token. */
  readonly mu?: number;
}

/** `numeric-error`: a logit is NaN or infinite. `no-candidate`: every token is excluded. */
export type SampleError = 'numeric-error' | 'no-candidate';

export type SampleResult = SampledToken | { readonly ok: false; readonly error: SampleError };

/** Row i of `logits` (`vocabSize` values each) goes with `rows[i]`; rows never affect each other. */
export type SampleRows = (
  logits: Float32Array,
  vocabSize: number,
  rows: readonly SampleRow[],
) => SampleResult[];

/** Throws where the caller breaks the contract. */
export function checkRows(logits: Float32Array, vocabSize: number, rows: readonly SampleRow[]): void {
  if (vocabSize < 1 || logits.length < vocabSize * rows.length) {
    throw new Error(`sampling: ${logits.length} logits are too few for ${rows.length} rows of ${vocabSize}`);
  }
  checkMasks(vocabSize, rows);
}

export function checkMasks(vocabSize: number, rows: readonly SampleRow[]): void {
  for (const { mask } of rows) {
    if (mask === undefined || mask.length * 32 >= vocabSize) continue;
    throw new Error(`sampling: a mask of ${mask.length} words is too short for ${vocabSize} tokens`);
  }
}
