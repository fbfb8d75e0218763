// The model's own MTP head as a drafter, for all who decode at once, one token of each at a time. It samples as the model would,
// with the same seed at the same position. What it computes lies in the blocks of the sequences themselves, at positions that
// the next step writes again: nothing has to be rolled back.

import { type Backend, BLOCK_TOKENS } from '../../compute/backend.ts';
import { buildBatch } from '../../compute/batch.ts';
import type { BlockTables } from '../cache/block-tables.ts';
import type { Sequence } from '../scheduler/sequence.ts';
import type { DraftJob, ModelDrafter } from './drafter.ts';

export type PredictingBackend = Backend & Required<Pick<Backend, 'predict'>>;

interface MtpDrafterOptions {
  readonly backend: PredictingBackend;
  /** Those of the scheduler. */
  readonly tables: BlockTables;
  readonly vocabSize: number;
}

interface OpenDraft extends DraftJob {
  readonly tokens: number[];
}

export class MtpDrafter implements ModelDrafter {
  readonly source = 'mtp-head';
  readonly countsDepth = true;
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

  async draft(jobs: readonly DraftJob[], most: number): Promise<ReadonlyMap<Sequence, readonly number[]>> {
    const drafts = jobs.map((job): OpenDraft => ({ ...job, tokens: [] }));
    let going = drafts;
    for (let round = 0; round < most && going.length > 0; round++) going = await this.#round(going);
    const begun = drafts.filter(({ tokens }) => tokens.length > 0);
    return new Map(begun.map(({ sequence, tokens }) => [sequence, tokens]));
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

  /** One more token of each; gives those that have got one. */
  async #round(drafts: readonly OpenDraft[]): Promise<OpenDraft[]> {
    const going = drafts.filter(({ sequence, tokens }) => isWithinBlock(sequence, tokens.length));
    if (going.length === 0) return [];
    const { backend, vocabSize } = this.#options;
    const logits = await backend.predict(
      buildBatch(
        going.map(({ sequence, tokens }) => {
          const start = sequence.computed + tokens.length;
          return {
            tokens: [tokens.at(-1) ?? (sequence.storage[sequence.length - 1] as number)],
            start,
            blocks: sequence.blocks,
            wantLogits: 'none',
            adapter: sequence.adapter,
            images: sequence.images?.ofRows(start, 1),
          };
        }),
      ),
    );
    return going.filter((draft, index) =>
      this.#sample(draft, logits.subarray(index * vocabSize, (index + 1) * vocabSize)),
    );
  }

  /** Adds the next token to a draft; false where there is none. */
  #sample({ sequence, lookahead, tokens }: OpenDraft, logits: Float32Array): boolean {
    // It may have ended meanwhile.
    if (sequence.state !== 'running') return false;
    const { backend, vocabSize } = this.#options;
    const row = lookahead.row();
    const result = row && backend.sampleRows(logits, vocabSize, [row])[0];
    if (result?.ok !== true || !lookahead.accept(result.token)) return false;
    tokens.push(result.token);
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

/** A draft ends with the block of the newest token: no further one is taken for it. */
function isWithinBlock({ computed }: Sequence, drafted: number): boolean {
  return (computed % BLOCK_TOKENS) + drafted < BLOCK_TOKENS;
}
