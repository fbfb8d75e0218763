// How many blocks may hold memory, by what was allowed and by what the device has, and how many more would serve.

import { BLOCK_TOKENS } from '../../compute/backend.ts';
import { blocksFor } from '../cache/block-tables.ts';
import type { RunningBatch } from './running-batch.ts';
import type { BlockDemand } from './stats.ts';

/** Admission stops where more than this share of the pool is in use or promised. */
const WATERMARK = 0.85;

export class BlockLimits {
  readonly #batch: RunningBatch;
  readonly #lanes: number;
  readonly #watermark: number;
  /** As it was allowed. */
  #granted = 0;
  /** That the device has memory for, where it refused more. */
  #deviceBlocks: number | undefined;
  /** The last plan could not have all the blocks it wanted. */
  #short = false;
  /** More blocks would serve: the last plan was short, or took blocks from the prefix cache. */
  #pressed = false;
  /** Free blocks that something other than a sequence waits for. */
  #asked = 0;

  /** `lanes`: sequences that may run at once. */
  constructor(batch: RunningBatch, lanes: number, watermark = WATERMARK) {
    if (!(watermark >= 0 && watermark <= 1)) {
      throw new RangeError(`the watermark must be between 0 and 1, not ${watermark}`);
    }
    this.#batch = batch;
    this.#lanes = lanes;
    this.#watermark = watermark;
  }

  get granted(): number {
    return this.#granted;
  }

  get isLimitedByDevice(): boolean {
    return this.#deviceBlocks !== undefined;
  }

  get short(): boolean {
    return this.#short;
  }

  allow(blocks: number): void {
    if (!(Number.isInteger(blocks) && blocks >= 0)) {
      throw new RangeError(`an engine may hold a whole number of blocks, not ${blocks}`);
    }
    this.#granted = Math.min(blocks, this.#batch.tables.pool.blockCount);
    this.#apply();
  }

  limitToDevice(blocks: number | undefined): void {
    this.#deviceBlocks = blocks;
    this.#apply();
  }

  /** `blocks`: free ones that something other than a sequence waits for; 0 for none. */
  want(blocks: number): void {
    this.#asked = blocks;
  }

  /** A plan is made: whether it was short of blocks, and whether it took some from the prefix cache. */
  planned(short: boolean, evicted: boolean): void {
    this.#short = short;
    this.#pressed = short || evicted;
  }

  /** Blocks that running sequences may hold when another is admitted. */
  watermarkBlocks(): number {
    return Math.floor(this.#watermark * this.#batch.tables.pool.limit);
  }

  /** Blocks that may hold memory once the next plan is made, at most. */
  mostHeldAfterPlan(): number {
    const { residentCount, usedCount, cachedFreeCount, limit } = this.#batch.tables.pool;
    return Math.max(residentCount, Math.min(limit, usedCount + cachedFreeCount + this.#mostTaken()));
  }

  /** As of the last plan. */
  demand(): BlockDemand {
    const { tables, running, queue } = this.#batch;
    const {
      residentCount: held,
      usedCount: used,
      sharedCount: shared,
      cachedFreeCount: cached,
    } = tables.pool;
    const limit = this.#granted;
    // More would not help where the device has no memory for what is allowed.
    const asked = this.#asked;
    const isPressed = this.#pressed || asked > 0;
    const wanted = isPressed && !this.isLimitedByDevice ? this.#wanted() : limit;
    const required = Math.max(asked, blocksFor((running[0] ?? queue.peek())?.length ?? 0));
    return { limit, held, used, shared, cached, wanted, short: this.#short || asked > 0, required };
  }

  #apply(): void {
    this.#batch.tables.pool.setLimit(Math.min(this.#granted, this.#deviceBlocks ?? this.#granted));
    this.#batch.queue.resumeAll();
  }

  /** Blocks that a plan can take: those of the step's tokens, and one of each sequence that is not full; or of all tokens there are. */
  #mostTaken(): number {
    const { budget, running, waitingCount, wholeTexts } = this.#batch;
    let tokens = budget.maxStepTokens;
    if (wholeTexts) for (const { length } of this.#batch.waiting()) tokens = Math.max(tokens, length);
    const sequences = Math.min(this.#lanes, running.length + waitingCount);
    const most = Math.ceil(tokens / BLOCK_TOKENS) + sequences;
    // Draft tokens may take one block more.
    let taken = this.#batch.outstandingBlocks() + running.length;
    for (const { length } of this.#batch.waiting()) {
      if (taken >= most) break;
      taken += blocksFor(length);
    }
    return Math.min(most, taken);
  }

  /** Twice the limit, and room for those that run and the next one at least. */
  #wanted(): number {
    const { limit, usedCount, blockCount } = this.#batch.tables.pool;
    const next = this.#batch.queue.peek();
    const ahead = Math.max(this.#asked, next === undefined ? 1 : blocksFor(next.length + 1));
    const needed = usedCount + this.#batch.outstandingBlocks() + ahead;
    return Math.min(blockCount, Math.max(2 * limit, needed));
  }
}
