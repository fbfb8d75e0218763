// What the scheduler asks of the tiers below the engine's memory: which blocks of a sequence could come up, and how long that
// would take. Whether they do is decided here, by what computing them would take.

import type { BlockHolder } from '../cache/block-holder.ts';

/** Where blocks lie that left the engine's memory: the machine's memory, or its disk. */
export type TierName = 'host' | 'disk';

export interface LoadOffer {
  /** Leading blocks of the sequence that it would have, those found in memory among them; it can go on after them. */
  readonly end: number;
  /** How long they take to come up, with what is on its way already. */
  readonly ms: number;
  /** The slowest of the tiers that have them. */
  readonly tier: TierName;
}

export interface LowerTiers {
  /** `found`: its blocks in memory; `resumable`: how many of them it could go on after without any tier. */
  offer(holder: BlockHolder, found: readonly number[], resumable: number): LoadOffer | undefined;
}
