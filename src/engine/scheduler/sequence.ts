// One sequence of tokens on its way through the engine: what it is, how far it is computed, which blocks
// hold it. There is no prefill or decode phase: `computed` simply catches up with `length`. The scheduler
// and the cache change it; everyone else reads.

import type { BlockHolder, RecurrentState } from '../cache/block-holder.ts';
import type { PrefixMiss } from '../cache/prefix-miss.ts';
import type { TierName } from './lower-tiers.ts';
import type { PooledStates } from './pooled-states.ts';
import type { ScoredTokens } from './scored-tokens.ts';
import type { ShownImages } from './shown-images.ts';

/** HIGH, NORMAL, LOW. */
export type Priority = 0 | 1 | 2;

/** How much more urgent a second of waiting makes a sequence: LOW passes a fresh HIGH after 20 s. */
export const AGING_PER_SECOND = 0.1;

/** Only a running sequence holds blocks. `preempted` waits like `waiting`, but has run before. */
export type SequenceState = 'new' | 'waiting' | 'running' | 'preempted' | 'finished';

/** Blocks of a sequence that come up from a lower tier, from those that it found on, up to `end`. */
export interface Loading {
  readonly end: number;
  /** The tier that is the slowest of those that have them. */
  readonly tier: TierName;
  /** How long it would take to compute them instead. */
  readonly computeMs: number;
}

export interface SequenceOptions {
  readonly id: string;
  /** The prompt, followed by what was generated already where a request is resumed. Not copied. */
  readonly tokens: Int32Array;
  /** Default: all of `tokens`. */
  readonly promptLength?: number;
  /** Limit of prompt and generated tokens together. */
  readonly maxTokens: number;
  readonly priority: Priority;
  /** When the request first queued. It keeps this for life, so that it never loses its age. */
  readonly enqueuedMs: number;
  /** Sequences share cached blocks only with those of the same salt. */
  readonly salt?: string;
  /** Which of the model's adapters it uses. Default none. */
  readonly adapter?: number | undefined;
  /** Whose it is: of a tier's accounts the one goes first that has had least work. */
  readonly account?: string;
  /** The part of the KV blocks, above 0 and up to 1, that its account may hold. Absent: no limit. */
  readonly kvShare?: number | undefined;
  /** Its place among those of its account that wait, in seconds of waiting; lower goes first. Default 0. */
  readonly order?: number | undefined;
  /** Where it is not continued but embedded. */
  readonly pooled?: PooledStates;
  /** Where it is not continued but scored. */
  readonly scored?: ScoredTokens;
}

export class Sequence implements BlockHolder {
  readonly id: string;
  readonly promptLength: number;
  readonly maxTokens: number;
  readonly priority: Priority;
  readonly enqueuedMs: number;
  readonly salt: string;
  readonly adapter: number | undefined;
  readonly account: string;
  readonly kvShare: number | undefined;
  /** Where it is embedded: nothing is sampled for it, and it ends when this is complete. */
  readonly pooled: PooledStates | undefined;
  /** The same where its tokens are scored. */
  readonly scored: ScoredTokens | undefined;
  /** Smaller is more urgent. All waiting sequences age alike, so the order never changes. */
  readonly key: number;
  /** The same among those of its own account. */
  readonly ownKey: number;
  /** Physical blocks: position p lives in row `p % 32` of block `blocks[p / 32]`. */
  readonly blocks: number[] = [];

  state: SequenceState = 'new';
  /** Tokens whose KV lie in the blocks. */
  computed = 0;
  /** While its first blocks come up from a lower tier: it runs, and nothing is computed for it. */
  loading: Loading | undefined;
  /** They could not be had: it computes them. */
  mayLoad = true;
  /** Plans in which it waited for blocks to load into. */
  grantWaits = 0;
  recurrent: RecurrentState | undefined;
  /** Where its prompt shows any: given before it is queued. */
  images: ShownImages | undefined;
  /** Most tokens that were computed before it was preempted. */
  reached = 0;
  /** Tokens that were computed when it last began to run. */
  startedFrom = 0;
  /** Prompt tokens that needed no compute when it first ran. */
  cachedTokens = 0;
  /** Of them, those that came up from a lower tier. */
  loadedTokens = 0;
  /** Why no more was found when it first ran. */
  miss: PrefixMiss | undefined;
  preemptions = 0;
  /** The key, or that of a more urgent sequence which waits for this one's blocks. */
  rank: number;
  /** Order of submission: decides between equal keys. */
  arrival = 0;

  #storage: Int32Array;
  #length: number;

  constructor(options: SequenceOptions) {
    this.id = options.id;
    this.#storage = options.tokens;
    this.#length = options.tokens.length;
    this.promptLength = options.promptLength ?? options.tokens.length;
    this.maxTokens = options.maxTokens;
    this.priority = options.priority;
    this.enqueuedMs = options.enqueuedMs;
    this.adapter = options.adapter;
    // What one adapter has computed is of no use to others.
    this.salt = `${this.adapter ?? ''}:${options.salt ?? ''}`;
    this.account = options.account ?? '';
    this.kvShare = options.kvShare;
    this.pooled = options.pooled;
    this.scored = options.scored;
    this.key = this.priority + (AGING_PER_SECOND * this.enqueuedMs) / 1000;
    this.ownKey = this.key + AGING_PER_SECOND * (options.order ?? 0);
    this.rank = this.key;
    if (!Number.isFinite(this.key)) {
      throw new RangeError(
        `sequence ${this.id}: no order by priority ${this.priority} and time ${this.enqueuedMs}`,
      );
    }
    if (!(this.promptLength >= 1 && this.promptLength <= this.#length)) {
      throw new RangeError(`sequence ${this.id}: prompt of ${this.promptLength} in ${this.#length} tokens`);
    }
    if (!(this.maxTokens > this.#length)) {
      throw new RangeError(
        `sequence ${this.id}: ${this.#length} tokens leave no room under the limit of ${this.maxTokens}`,
      );
    }
  }

  get low(): boolean {
    return this.priority === 2;
  }

  get length(): number {
    return this.#length;
  }

  /** Tokens not computed yet: 1 while it decodes. */
  get remaining(): number {
    return this.#length - this.computed;
  }

  /** Its next step computes at least so many: tokens that stand for one image may have to be computed together. */
  get leastChunk(): number {
    const { computed, images } = this;
    return images === undefined ? 1 : images.endAfter(computed + 1) - computed;
  }

  /** Whether tokens are sampled to follow it; otherwise it ends when it is computed. */
  get continues(): boolean {
    return this.pooled === undefined && this.scored === undefined;
  }

  /** The last row gives what comes next, so it is always computed; rows whose states or logits are wanted are, too. */
  get firstRequiredPosition(): number {
    const { firstRequiredPosition = this.#length } = this.pooled ?? this.scored ?? {};
    return Math.min(this.#length - 1, firstRequiredPosition);
  }

  /** Tokens in memory that may reach beyond `length`: for hot loops that keep to the length themselves. */
  get storage(): Int32Array {
    return this.#storage;
  }

  /** A view, valid until the next token is appended. */
  get tokens(): Int32Array {
    return this.#storage.subarray(0, this.#length);
  }

  append(token: number): void {
    if (this.#length === this.maxTokens) {
      throw new RangeError(
        `sequence ${this.id} is full: it should have finished at ${this.maxTokens} tokens`,
      );
    }
    if (this.#length === this.#storage.length) {
      const grown = new Int32Array(Math.min(this.maxTokens, 2 * this.#length + 32));
      grown.set(this.#storage);
      this.#storage = grown;
    }
    this.#storage[this.#length] = token;
    this.#length += 1;
  }
}

/** Order of urgency; first come, first served between equals. */
export function compareKeys(a: Sequence, b: Sequence): number {
  return a.key - b.key || a.arrival - b.arrival;
}

/** The same among the sequences of one account, which may put its own in order. */
export function compareOwnKeys(a: Sequence, b: Sequence): number {
  return a.ownKey - b.ownKey || a.arrival - b.arrival;
}
