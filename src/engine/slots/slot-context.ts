// What slots of an engine work with.

import type { SlotFolder } from '../../block-store/slot-files.ts';
import type { KvContent } from '../../compute/backend.ts';
import type { BlockTables } from '../cache/block-tables.ts';
import type { Scheduler } from '../scheduler/scheduler.ts';
import type { BlockKeys } from '../tiers/block-keys.ts';
import type { StoredBlocks } from '../tiers/stored-blocks.ts';
import type { BetweenSteps } from './between-steps.ts';
import type { Holds } from './hold.ts';
import type { SlotModel } from './slot-manifest.ts';
import type { SlotPrefixes } from './slot-prefixes.ts';

export interface SlotsOptions {
  readonly files: SlotFolder;
  readonly content: KvContent;
  readonly tables: BlockTables;
  readonly limits: Pick<Scheduler, 'want' | 'grantedBlocks'>;
  /** Where blocks are that left memory. */
  readonly stored: StoredBlocks | undefined;
  readonly nowMs: () => number;
  readonly wake: () => void;
  readonly warn: (message: string) => void;
}

/** What an action works with. */
export interface SlotContext extends SlotsOptions {
  readonly model: SlotModel;
  readonly keys: BlockKeys;
  readonly steps: BetweenSteps;
  readonly holds: Holds;
  readonly prefixes: SlotPrefixes;
  /** Resolves once the engine may hold another number of blocks, after so long at the latest. */
  readonly whenAllowed: (withinMs: number) => Promise<void>;
  /** Aborted when the engine ends. */
  readonly signal: AbortSignal;
}
