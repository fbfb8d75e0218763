// What proposes draft tokens, and what it must keep to.

import type { LikelyTokens } from '../../grammar/matcher.ts';
import type { SampleRow } from '../../sampling/sample-row.ts';
import type { DraftSource, DraftToken } from '../scheduler/draft.ts';
import type { Sequence } from '../scheduler/sequence.ts';

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

/** A sequence that wants a draft of a model. */
export interface DraftJob {
  readonly sequence: Sequence;
  readonly lookahead: Lookahead;
}

/** What a model drafts, by sequence. */
export type ModelDrafts = ReadonlyMap<Sequence, readonly DraftToken[]>;

/** Drafts for many sequences at once, in steps of its own, one token of each at a time. */
export interface ModelDrafter {
  /** Of its tokens, of which the one after `depth` others has that as its match length. */
  readonly source: DraftSource;
  /** Whether acceptance rates differ by depth. */
  readonly countsDepth: boolean;
  /** Whether a sequence could get a draft. */
  fits(sequence: Sequence): boolean;
  /** Computes what is missing before drafts can be made, as far as it may; gives the jobs that are ready. */
  catchUp(jobs: readonly DraftJob[]): Promise<DraftJob[]>;
  /** Up to `most` tokens for each; those that get none are left out. */
  draft(jobs: readonly DraftJob[], most: number): Promise<ReadonlyMap<Sequence, readonly number[]>>;
  /** The sequence has ended, or was preempted. */
  release(sequence: Sequence): void;
  /** The step is planned: gives back what may be held no longer. */
  keepToLimit(): Promise<void>;
  /** How many blocks of its own may hold memory. */
  allow(blocks: number): void;
  useThreads(count: number): void;
}
