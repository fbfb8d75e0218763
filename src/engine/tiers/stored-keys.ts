// Which prefixes a tier below memory holds, for those who choose where a prompt goes: what it held when they began to ask, then what
// changed, in the order in which it happened. Some thousand keys at a time, so that no step waits for a disk with a million.

import type { BlockLabel, LabelListener } from '../../block-store/block-tier.ts';
import { settled } from '../cache/prefix-events.ts';
import { KEY_LANES } from '../cache/prefix-key.ts';
import type { TierName } from '../scheduler/lower-tiers.ts';

/** Two numbers a key, as in PrefixEvents. */
export interface StoredKeys {
  readonly tier: TierName;
  /** What was said of the tier before holds no more. */
  readonly isFirst: boolean;
  readonly entered: Int32Array;
  readonly left: Int32Array;
}

export const MOST_KEYS_AT_ONCE = 8192;

export class StoredKeyLog implements LabelListener {
  readonly #tier: TierName;
  readonly #onNews: () => void;
  readonly #lanes: number[] = [];
  readonly #hasEntered: boolean[] = [];
  /** Changes that were taken. */
  #taken = 0;
  #isFirst = true;

  /** `onNews`: called when there is something to take after there was nothing. */
  constructor(tier: TierName, onNews: () => void) {
    this.#tier = tier;
    this.#onNews = onNews;
  }

  entered(label: BlockLabel): void {
    this.#add(label, true);
  }

  left(label: BlockLabel): void {
    this.#add(label, false);
  }

  /** The first changes that were not taken yet; undefined where there are none. */
  take(): StoredKeys | undefined {
    const to = Math.min(this.#hasEntered.length, this.#taken + MOST_KEYS_AT_ONCE);
    if (to === this.#taken && !this.#isFirst) return undefined;
    const entered: number[] = [];
    const left: number[] = [];
    for (; this.#taken < to; this.#taken++) {
      const at = this.#taken * KEY_LANES;
      const list = this.#hasEntered[this.#taken] ? entered : left;
      list.push(this.#lanes[at] as number, this.#lanes[at + 1] as number);
    }
    if (to === this.#hasEntered.length) this.#clear();
    const [come, gone] = settled(entered, left);
    const isFirst = this.#isFirst;
    this.#isFirst = false;
    return { tier: this.#tier, isFirst, entered: come, left: gone };
  }

  get hasMore(): boolean {
    return this.#isFirst || this.#hasEntered.length > 0;
  }

  #add({ high, low }: BlockLabel, hasEntered: boolean): void {
    const hadNone = this.#hasEntered.length === 0;
    this.#lanes.push(high, low);
    this.#hasEntered.push(hasEntered);
    if (hadNone) this.#onNews();
  }

  #clear(): void {
    this.#lanes.length = 0;
    this.#hasEntered.length = 0;
    this.#taken = 0;
  }
}
