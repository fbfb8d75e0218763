// What a worker would not have to compute of a prompt: what it has in memory, and what it would load from below if that is sooner.

import { BLOCK_TOKENS } from '../../compute/backend.ts';
import type { TierReport } from './heartbeat.ts';

/** Blocks by where they are expected to be found. */
export interface ExpectedPrefix {
  readonly memoryBlocks: number;
  readonly hostBlocks: number;
  readonly diskBlocks: number;
  /** Until those of host and disk have come up. */
  readonly loadMs: number;
}

export const NOTHING_FOUND: ExpectedPrefix = { memoryBlocks: 0, hostBlocks: 0, diskBlocks: 0, loadMs: 0 };

export function inMemory(memoryBlocks: number): ExpectedPrefix {
  return { ...NOTHING_FOUND, memoryBlocks };
}

/**
 * Until these blocks have come up; undefined where that takes longer than to compute them, for then they stay where they are, as
 * the engine decides it, too. Asked of every worker for every request.
 */
export function loadMsOf(
  hostBlocks: number,
  diskBlocks: number,
  { hostBlockMs = 0, disk }: TierReport,
  promptTokenMs: number,
): number | undefined {
  const ms = hostBlocks * hostBlockMs + diskBlocks * (disk?.blockMs ?? 0);
  return ms < (hostBlocks + diskBlocks) * BLOCK_TOKENS * promptTokenMs ? ms : undefined;
}

export function loadedBlocks({ hostBlocks, diskBlocks }: ExpectedPrefix): number {
  return hostBlocks + diskBlocks;
}

/** Tokens of a prompt by where they are expected to be found. */
export interface TokensByTier {
  readonly memory: number;
  readonly host: number;
  readonly disk: number;
}

export function tokensByTier({ memoryBlocks, hostBlocks, diskBlocks }: ExpectedPrefix): TokensByTier {
  const [memory, host, disk] = [memoryBlocks, hostBlocks, diskBlocks].map((blocks) => blocks * BLOCK_TOKENS);
  return { memory, host, disk } as TokensByTier;
}

/** Prompt tokens that need not be computed. */
export function foundTokens(prefix: ExpectedPrefix): number {
  return (prefix.memoryBlocks + loadedBlocks(prefix)) * BLOCK_TOKENS;
}

/** The same, less those that could be computed while the others load: a prefix below is worth less than one in memory. */
export function savedTokens(blocks: number, loadMs: number, promptTokenMs: number): number {
  return blocks * BLOCK_TOKENS - (loadMs === 0 ? 0 : Math.ceil(loadMs / promptTokenMs));
}
