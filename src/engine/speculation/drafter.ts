// What proposes draft tokens, and what it must keep to.

import type { LikelyTokens } from '../../grammar/matcher.ts';
import type { SampleRow } from '../../sampling/sample-row.ts';
import type { DraftToken } from '../scheduler/draft.ts';

export interface Drafter {
  /** What may come next, after what it was extended by. `end`: a token that would end the value at hand, where there is one. */
  propose(end?: number): DraftToken | undefined;
  /** Goes on as if the token had come, until `rollBack`. */
  extend(token: number): void;
  rollBack(): void;
  /** The sequence goes on with this token. It is rolled back before. */
  accept(token: number): void;
}

/** An answer as if further tokens had come: what a draft must keep to. */
export interface Lookahead {
  /** False where the token cannot come, or where nothing would follow it. */
  accept(token: number): boolean;
  /** How the next token is sampled; undefined where that takes too long to find out. */
  row(): SampleRow | undefined;
  /** Tokens that come next, as far as there is but one text, white space aside. */
  likely(most: number): LikelyTokens;
  /** Those that would end the value at hand, and what would follow. */
  ending(most: number): readonly number[];
}
