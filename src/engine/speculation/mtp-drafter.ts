// The model's own MTP head as a drafter, for all who decode at once. It samples as the model would, with the same seed at the same
// position: all tokens of a draft in one call of the backend, and one after the other where what is sampled depends on the tokens
// before it. What it computes lies in the blocks of the sequences themselves, at positions that the next step writes again: nothing has
// to be rolled back.

import { type Backend, type Batch, BLOCK_TOKENS } from '../../compute/backend.ts';
import { buildBatch } from '../../compute/batch.ts';
import { needsChain } from '../../sampling/chain.ts';
import type { SampleRow } from '../../sampling/sample-row.ts';
import type { BlockTables } from '../cache/block-tables.ts';
import type { DraftToken } from '../scheduler/draft.ts';
import type { Sequence } from '../scheduler/sequence.ts';
import {
  type Drafted,
  type DraftJob,
  type DraftLimits,
  type ModelDrafter,
  sampledToken,
  tokenOfModel,
} from './drafter.ts';

export type PredictingBackend = Backend & Required<Pick<Backend, 'predict' | 'draft'>>;

interface MtpDrafterOptions {
  readonly backend: PredictingBackend;
  /** Those of the scheduler. */
  readonly tables: BlockTables;
  readonly vocabSize: number;
}

interface OpenDraft extends DraftJob {
  readonly tokens: DraftToken[];
  logprob: number;
}

/** One whose tokens are drafted in one call: `rows` says how each is sampled. */
interface WholeDraft extends OpenDraft {
  readonly rows: readonly SampleRow[];
}

export class MtpDrafter implements ModelDrafter {
  readonly source = 'mtp-head';
  readonly #options: MtpDrafterOptions;

  constructor(options: MtpDrafterOptions) {
    this.#options = options;
  }

  /** A prompt of one token has no state before it yet. */
  fits({ computed, state }: Sequence): boolean {
    return computed > 0 && state === 'running';
  }

  /** Steps have computed all that it needs; it waits where the newest token would take a block from somebody. */
  async catchUp(jobs: readonly DraftJob[]): Promise<DraftJob[]> {
    const ready = jobs.filter(({ sequence }) => this.#hasBlock(sequence));
    const { backend, tables } = this.#options;
    // Blocks may have become uncommitted and been taken anew since; nothing is written to them yet.
    const uncommitted = tables.pool.takeUncommitted();
    if (uncommitted.length > 0) backend.releaseBlocks(Int32Array.from(uncommitted));
    return ready;
  }

  async draft(jobs: readonly DraftJob[], limits: DraftLimits): Promise<Drafted> {
    const { rounds: most, leastLogprob } = limits;
    const lengthOf = ({ sequence }: DraftJob) => Math.min(most, roomFor(sequence));
    const begun = jobs
      .filter((job) => lengthOf(job) > 0)
      .map((job): WholeDraft => ({ ...job, tokens: [], logprob: 0, rows: job.lookahead.rows(lengthOf(job)) }))
      .filter(({ rows }) => rows.length > 0);
    const isWhole = (draft: WholeDraft) =>
      draft.rows.length === lengthOf(draft) && !draft.rows.some(needsChain);
    let rounds = await this.#whole(begun.filter(isWhole), leastLogprob);
    let going: OpenDraft[] = begun.filter((draft) => !isWhole(draft));
    for (let round = 0; round < most && going.length > 0; round++, rounds++) {
      going = (await this.#round(going)).filter(({ logprob }) => logprob >= leastLogprob);
    }
    const drafted = begun.filter(({ tokens }) => tokens.length > 0);
    return { drafts: new Map(drafted.map(({ sequence, tokens }) => [sequence, tokens])), rounds };
  }

  release(): void {
    // It holds nothing.
  }

  async keepToLimit(): Promise<void> {
    // Nor has it a limit of its own.
  }

  allow(): void {
    // As above.
  }

  useThreads(): void {
    // Those of the model's backend.
  }

  /** All tokens of each; gives the rounds that were computed. */
  async #whole(drafts: readonly WholeDraft[], leastLogprob: number): Promise<number> {
    if (drafts.length === 0) return 0;
    const drafted = await this.#options.backend.draft(
      batchOf(drafts),
      drafts.map(({ rows }) => rows),
      leastLogprob,
    );
    for (const [at, { sequence, lookahead, tokens }] of drafts.entries()) {
      // It may have ended meanwhile.
      if (sequence.state !== 'running') continue;
      for (const each of drafted[at] ?? []) {
        if (!lookahead.accept(each.token)) break;
        tokens.push(tokenOfModel(this.source, each));
      }
    }
    return Math.max(...drafted.map(({ length }) => length));
  }

  /** One more token of each; gives those that have got one. */
  async #round(drafts: readonly OpenDraft[]): Promise<OpenDraft[]> {
    const going = drafts.filter(({ sequence, tokens }) => tokens.length < roomFor(sequence));
    if (going.length === 0) return [];
    const { backend, vocabSize } = this.#options;
    const logits = await backend.predict(batchOf(going));
    return going.filter((draft, index) =>
      this.#sample(draft, logits.subarray(index * vocabSize, (index + 1) * vocabSize)),
    );
  }

  /** Adds the next token to a draft; false where there is none. */
  #sample(draft: OpenDraft, logits: Float32Array): boolean {
    const { sequence, lookahead, tokens } = draft;
    // It may have ended meanwhile.
    if (sequence.state !== 'running') return false;
    const { backend, vocabSize } = this.#options;
    const sampled = sampledToken(backend, logits, vocabSize, lookahead);
    if (sampled === undefined) return false;
    tokens.push(tokenOfModel(this.source, sampled));
    draft.logprob += sampled.logprob;
    return true;
  }

  /** Whether the newest token has its block, which it gets where one is free that holds nothing: the next step takes it anyway. */
  #hasBlock(sequence: Sequence): boolean {
    const { tables } = this.#options;
    if (tables.lackFor(sequence, 1) === 0) return true;
    const { freeCount, cachedFreeCount } = tables.pool;
    if (freeCount <= cachedFreeCount || !tables.fitsShareWithoutEviction(sequence)) return false;
    return tables.grow(sequence, 1) === 1;
  }
}

/** The last token of each, the newest one where nothing is drafted yet. */
function batchOf(drafts: readonly OpenDraft[]): Batch {
  return buildBatch(
    drafts.map(({ sequence, tokens }) => {
      const start = sequence.computed + tokens.length;
      return {
        tokens: [tokens.at(-1)?.token ?? (sequence.storage[sequence.length - 1] as number)],
        start,
        blocks: sequence.blocks,
        wantLogits: 'none',
        adapter: sequence.adapter,
        images: sequence.images?.ofRows(start, 1),
      };
    }),
  );
}

/**
 * Tokens that can be drafted. A draft ends with the block of the newest token, no further one is taken for it, and with the answer,
 * whose last token is sampled by the step that verifies it.
 */
function roomFor({ computed, length, maxTokens }: Sequence): number {
  return Math.min(BLOCK_TOKENS - (computed % BLOCK_TOKENS), maxTokens - 1 - length);
}
