// What an engine says of the tiers below its memory: counts since its start, and what they hold.

import type { BlockTierStats } from '../../block-store/block-tier.ts';
import type { TierFigures } from '../live/snapshot.ts';
import type { HostStats } from './host-tier.ts';
import type { BlockLoad } from './tier-speeds.ts';

export interface TierStats {
  /** Absent where there is none. */
  readonly host?: HostStats | undefined;
  /** Absent where there is none, and before it is open. */
  readonly disk?: BlockTierStats | undefined;
  /** Sequences whose blocks come up now. */
  readonly loading: number;
  /** Sequences whose blocks were asked for, and those of which some could not be had. */
  readonly loads: number;
  readonly failedLoads: number;
  /** Blocks that came up whole chains at a time, and of them those of loads that read the disk. */
  readonly loadedBlocks: number;
  readonly diskBlocks: number;
  /** Blocks in memory that are to be written to the disk. */
  readonly unsaved: number;
  /** Who finds the same blocks on the disk; see BlockTier. */
  readonly holder?: string | undefined;
  /** Absent where there is neither. */
  readonly block?: BlockLoad | undefined;
}

/** Whether there is nothing new to say. */
export function saysSame(a: TierStats, b: TierStats | undefined): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** In brief. */
export function figuresOf({ host, disk, loadedBlocks }: TierStats): TierFigures {
  return {
    ...(host && { host: { blocks: host.blocks, bytes: host.bytes } }),
    ...(disk && { disk: { blocks: disk.blocks, bytes: disk.bytes } }),
    loaded: loadedBlocks,
    missed: disk?.misses ?? 0,
  };
}
