// What guesses the next tokens of one sequence. A guess costs a row of a step and is never trusted: what counts is the token
// that is drawn.

export interface Drafter {
  /** Up to `most` tokens that may follow those so far; nothing changes. */
  guess(most: number): Draft;
  /** The sequence goes on with this token. */
  accept(token: number): void;
}

export interface Draft {
  readonly tokens: readonly number[];
  /** Why they may be right: guesses of one kind are right about as often as each other. */
  readonly kind: DraftKind;
}

/**
 * `after2` to `after8`: the text went on like this before, behind at least so many of the same tokens. `expected`: the
 * client says so, and was right so far. `again`: it says so, but was wrong just before. `forced`: the grammar allows no other
 * text. `model`: a smaller model says so.
 */
export const draftKinds = [
  'after2',
  'after3',
  'after4',
  'after8',
  'expected',
  'again',
  'forced',
  'model',
] as const;
export type DraftKind = (typeof draftKinds)[number];

export const noDraft: Draft = { tokens: [], kind: 'after2' };
