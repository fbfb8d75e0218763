// A draft: tokens that may follow the last one of a sequence. Drafters propose them one after the other; the draft is cut to the
// length that pays, then to what a step has room for, computed, and judged when the step is committed. A draft token costs
// a row of a step and is never trusted: what counts is the token that is sampled.

import type { SampleRow } from '../../sampling/sample-row.ts';

export interface Draft {
  /** Those that the step computes. */
  readonly tokens: readonly number[];
  /** How the token after each of them is sampled. */
  readonly rows: readonly SampleRow[];
  /** All that were proposed, `tokens` first. */
  readonly proposed: readonly DraftToken[];
}

export const noDraft: Draft = { tokens: [], rows: [], proposed: [] };

export function shortened(draft: Draft, length: number): Draft {
  return { ...draft, tokens: draft.tokens.slice(0, length), rows: draft.rows.slice(0, length) };
}

/** Tokens of one source and match length are accepted about as often as each other. */
export interface DraftToken {
  readonly token: number;
  readonly source: DraftSource;
  /** How much of the text before it speaks for it, in the source's unit; 0 where the source has none. */
  readonly matchLength: number;
}

export type DraftSource =
  /** The text went on like this before, after `matchLength` of the same tokens. */
  | 'prompt-lookup'
  /** Another answer went on like this, after `matchLength` of the same tokens. */
  | 'n-gram-cache'
  /** The client expects it. 1 where the token before it was as expected, 0 where it was another. */
  | 'prediction'
  /** The grammar allows no other text. */
  | 'grammar'
  /** The grammar allows no other text but for white space. */
  | 'grammar-space'
  /** The same, but what follows may share the text's last token. */
  | 'grammar-edge'
  /** The value may end here. */
  | 'grammar-end'
  /** A word of the prompt begins with the same `matchLength` bytes. */
  | 'word-completion'
  /** That word ends here. */
  | 'word-end'
  | ModelSource;

/**
 * A smaller model sampled it, or the model's own MTP head: `matchLength` says how likely it took it for, from 1 on. 0 is the first token of a
 * draft, however likely.
 */
export type ModelSource = 'draft-model' | 'mtp-head';
