// What guesses the next tokens of one sequence, one behind the other. A guess costs a row of a step and is never trusted:
// what counts is the token that is drawn.

export interface Drafter {
  /** What may come next, behind what was imagined. `end`: a token that would end the value at hand, where there is one. */
  guess(end?: number): Guess | undefined;
  /** Goes on as if the token had come, until `forget`. */
  imagine(token: number): void;
  forget(): void;
  /** The sequence goes on with this token. Nothing is imagined then. */
  accept(token: number): void;
}

export interface Guess {
  readonly token: number;
  /** Why it may be right: guesses of one kind are right about as often as each other. */
  readonly kind: GuessKind;
}

/**
 * `after1` to `after8`: the text went on like this before, behind at least so many of the same tokens. `habit1` to `habit4`:
 * another answer did. `expected`: the client says so, and was right so far. `again`: it says so, but was wrong just before.
 * `forced`: the grammar allows no other text. `usual`: nor does it but for white space. `edge`: so it is, but what follows may share its last token.
 * `word1` to `word3`: a word of the prompt begins like this one, which has so many bytes so far; `word-end`: it ends here. `end`: the value
 * may end here. `model`: a smaller model says so.
 */
export const guessKinds = [
  'after1',
  'after2',
  'after3',
  'after4',
  'after8',
  'habit1',
  'habit2',
  'habit4',
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
export type GuessKind = (typeof guessKinds)[number];
