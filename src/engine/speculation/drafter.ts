// What proposes draft tokens, and what it must keep to.

import type { Backend, DraftedToken } from '../../compute/backend.ts';
import type { LikelyTokens } from '../../grammar/matcher.ts';
import type { SampleRow } from '../../sampling/sample-row.ts';
import type { DraftToken, ModelSource } from '../scheduler/draft.ts';
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
  /**
   * How the tokens are sampled that come next, up to `most`, whichever they are; after the first one as if the grammar allowed all.
   * Only that one where more depends on it, and none where it takes too long to find out.
   */
  rows(most: number): readonly SampleRow[];
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

/** From how likely on a token is of each certainty, from 1 on. */
const CERTAINTIES = [0, 0.3, 0.5, 0.7, 0.85, 0.93, 0.97, 0.99].map(Math.log);

/** A token that a model drafted, by how likely it took it for: such are accepted about as often as each other. */
export function tokenOfModel(source: ModelSource, { token, logprob }: DraftedToken): DraftToken {
  return { token, source, matchLength: CERTAINTIES.findLastIndex((least) => logprob >= least) + 1 };
}

/** How far a model shall draft. */
export interface DraftLimits {
  /** Tokens for each sequence. */
  readonly rounds: number;
  /** A draft ends with the token with which all of it is less likely than this says, as a logarithm. */
  readonly leastLogprob: number;
}

export interface Drafted {
  /** Without those that got no token. */
  readonly drafts: ModelDrafts;
  /** Of one token for each, as many as were computed. */
  readonly rounds: number;
}

/** Drafts for many sequences at once, in steps of its own, one token of each at a time. */
export interface ModelDrafter {
  /** Of its tokens. */
  readonly source: ModelSource;
  /** Whether a sequence could get a draft. */
  fits(sequence: Sequence): boolean;
  /** Computes what is missing before drafts can be made, as far as it may; gives the jobs that are ready. */
  catchUp(jobs: readonly DraftJob[]): Promise<DraftJob[]>;
  draft(jobs: readonly DraftJob[], limits: DraftLimits): Promise<Drafted>;
  /** The sequence has ended, or was preempted. */
  release(sequence: Sequence): void;
  /** The step is planned: gives back what may be held no longer. */
  keepToLimit(): Promise<void>;
  /** How many blocks of its own may hold memory. */
  allow(blocks: number): void;
  useThreads(count: number): void;
}

/** The next token of a draft, as a model's logits have it; undefined where there is none. */
export function sampledToken(
  backend: Pick<Backend, 'sampleRows'>,
  logits: Float32Array,
  vocabSize: number,
  lookahead: Lookahead,
): DraftedToken | undefined {
  const row = lookahead.row();
  if (row === undefined) return undefined;
  const wanted = { ...row, parameters: { ...row.parameters, logprobs: 0 } };
  const [result] = backend.sampleRows(logits, vocabSize, [wanted]);
  if (result?.ok !== true || !lookahead.accept(result.token)) return undefined;
  return { token: result.token, logprob: result.logprobs?.logprob as number };
}
