// What draft tokens the next tokens of one sequence, one behind the other. A draft token costs a row of a step and is never trusted:
// what counts is the token that is drawn.

export interface Drafter {
  /** What may come next, after what it was extended by. `end`: a token that would end the value at hand, where there is one. */
  propose(end?: number): DraftToken | undefined;
  /** Goes on as if the token had come, until `rollBack`. */
  extend(token: number): void;
  rollBack(): void;
  /** The sequence goes on with this token. It is rolled back before. */
  accept(token: number): void;
}

export interface DraftToken {
  readonly token: number;
  /** Why it may be right: draft tokens of one kind are right about as often as each other. */
  readonly kind: DraftKind;
}

/**
 * `after1` to `after8`: the text went on like this before, behind at least so many of the same tokens. `ngram1` to `ngram4`:
 * another answer did. `expected`: the client says so, and was right so far. `again`: it says so, but was wrong just before.
 * `forced`: the grammar allows no other text. `usual`: nor does it but for white space. `edge`: so it is, but what follows may share its last token.
 * `word1` to `word3`: a word of the prompt begins like this one, which has so many bytes so far; `word-end`: it ends here. `end`: the value
 * may end here. `model`: a smaller model says so.
 */
export const draftKinds = [
  'after1',
  'after2',
  'after3',
  'after4',
  'after8',
  'ngram1',
  'ngram2',
  'ngram4',
  'expected',
  'again',
  'forced',
  'usual',
  'edge',
  'word1',
  'word2',
  'word3',
  'word-end',
  'end',
  'model',
] as const;
export type DraftKind = (typeof draftKinds)[number];
