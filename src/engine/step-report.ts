// What the engine reports after a step, as plain data: all in one message.

import type { PrefixEvents } from './cache/prefix-events.ts';
import type { PrefixMiss } from './cache/prefix-miss.ts';
import type { ImageStats } from './images/image-stats.ts';
import type { RequestEvent } from './request.ts';
import type { BlockDemand, SchedulerStats } from './scheduler/stats.ts';
import type { StoredKeys } from './tiers/stored-keys.ts';
import type { TierStats } from './tiers/tier-stats.ts';
import type { EstimatedWait } from './wait-estimates.ts';

/** Where the time of a step goes. */
export interface StepTimes {
  readonly scheduleMs: number;
  readonly computeMs: number;
  readonly sampleMs: number;
  readonly emitMs: number;
}

/** One step in brief; requests by their ids. */
export interface StepSummary {
  readonly step: number;
  readonly tokens: number;
  readonly sequences: number;
  readonly admitted: readonly string[];
  readonly preempted: readonly string[];
  readonly finished: readonly string[];
  /** Without the time to send this. */
  readonly times: StepTimes;
}

/** One step with the scheduler's full stats. */
export interface StepEvent extends StepSummary {
  readonly stats: SchedulerStats;
}

/** How much of a prompt was found in the prefix cache, and why not the rest. */
export interface PrefixLookup extends PrefixMiss {
  readonly id: string;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  /** Of the cached ones, those that came up from a lower tier; absent where there are none. */
  readonly loadedTokens?: number;
}

export interface StepReport {
  /** Everything that happened to requests, in order. */
  readonly events: readonly RequestEvent[];
  readonly blocks: BlockDemand;
  /** Absent where something happened between steps. */
  readonly step?: StepSummary;
  /** Of those that were admitted for the first time; absent where nobody was. */
  readonly lookups?: readonly PrefixLookup[];
  /** What entered and left the prefix cache, while someone is subscribed to it. */
  readonly prefixes?: PrefixEvents;
  /** What the tiers below memory have come to hold and hold no more, while someone is subscribed to it. */
  readonly stored?: readonly StoredKeys[];
  /** Where the model has a vision tower, and its counts have changed. */
  readonly images?: ImageStats;
  /** Where blocks that leave memory are kept, and the counts have changed. */
  readonly tiers?: TierStats;
  /** Now and then, while any wait: where the next of them are. */
  readonly places?: readonly EstimatedWait[];
  /** With a step, while someone is subscribed to them. */
  readonly stats?: SchedulerStats;
}
