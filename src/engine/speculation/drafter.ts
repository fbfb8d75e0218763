// What proposes the next tokens of one sequence, one after the other. A draft token costs a row of a step and is never
// trusted: what counts is the token that is sampled.

export interface Drafter {
  /** What may come next, after what it was extended by. `end`: a token that would end the value at hand, where there is one. */
  propose(end?: number): DraftToken | undefined;
  /** Goes on as if the token had come, until `rollBack`. */
  extend(token: number): void;
  rollBack(): void;
  /** The sequence goes on with this token. It is rolled back before. */
  accept(token: number): void;
}

/** Tokens of one source and match length are accepted about as often as each other. */
export interface DraftToken {
  readonly token: number;
  readonly source: DraftSource;
  /** How much of the text before it speaks for it, in the source's unit; 0 where the source has none. */
  readonly matchLength: number;
}

export type DraftSource =
  /** The text went on like this before, after so many of the same tokens. */
  | 'prompt-lookup'
  /** Another answer went on like this, after so many of the same tokens. */
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
  /** A word of the prompt begins with the same bytes, so many of them. */
  | 'word-completion'
  /** That word ends here. */
  | 'word-end'
  /** A smaller model sampled it. */
  | 'draft-model';
