// Who holds how much of the memory budget. Weights count from the moment a load begins until its engine is gone. KV
// blocks count as far as an engine may hold them: a larger limit counts at once, a smaller one only when the engine
// has said that it holds no more. So the sum never exceeds the budget, and neither does what is really held.

import type { BlockDemand } from '../engine/scheduler/stats.ts';
import type { ModelMemory } from './model-memory.ts';

export interface Holding {
  readonly name: string;
  readonly memory: ModelMemory;
  /** The limit that was last sent to its engine. */
  readonly allowed: number;
  /** Blocks it may still hold, as far as is known. Never fewer than allowed. */
  readonly counted: number;
  /** Whether its last report knew of what it is allowed. */
  readonly heard: boolean;
  /** Blocks its running sequences need, by its last report. */
  readonly used: number;
  /** Blocks it would like to be allowed, by its last report. */
  readonly wanted: number;
  /** Whether sequences wait for blocks; otherwise its prefix cache alone would gain. */
  readonly short: boolean;
  /** Blocks without which its most urgent sequence cannot go on, by its last report. */
  readonly required: number;
}

type OpenHolding = { -readonly [Part in keyof Holding]: Holding[Part] };

export class MemoryLedger {
  readonly budgetBytes: number;
  readonly #holdings = new Map<string, OpenHolding>();

  constructor(budgetBytes: number) {
    this.budgetBytes = budgetBytes;
  }

  get freeBytes(): number {
    return this.budgetBytes - this.holdings().reduce((sum, holding) => sum + holdingBytes(holding), 0);
  }

  holdings(): readonly Holding[] {
    return [...this.#holdings.values()];
  }

  holding(name: string): Holding | undefined {
    return this.#holdings.get(name);
  }

  /** Counts a model's weights and its first blocks; false, and nothing counted, where they do not fit. */
  reserve(name: string, memory: ModelMemory): boolean {
    if (this.#holdings.has(name)) throw new Error(`memory of ${name} is reserved already`);
    if (firstBytes(memory) > this.freeBytes) return false;
    const blocks = memory.firstBlocks;
    this.#holdings.set(name, {
      name,
      memory,
      allowed: blocks,
      counted: blocks,
      heard: false,
      used: 0,
      wanted: 0,
      short: false,
      required: 0,
    });
    return true;
  }

  /** Its engine is gone. */
  release(name: string): void {
    this.#holdings.delete(name);
  }

  /** A new limit is sent to an engine. */
  allow(name: string, blocks: number): void {
    const holding = this.#open(name);
    const { blockCount, blockBytes } = holding.memory;
    if (!Number.isInteger(blocks) || blocks < 0 || blocks > blockCount)
      throw new RangeError(`${name} has ${blockCount} blocks and cannot be allowed ${blocks}`);
    const more = Math.max(0, blocks - holding.counted);
    // With one new limit on its way at most, a report shows which of two it knows of.
    if (!holding.heard) throw new Error(`${name} has not heard of its last limit yet`);
    if (more * blockBytes > this.freeBytes) throw new Error(`${blocks} blocks of ${name} are not free`);
    holding.heard = blocks === holding.allowed;
    holding.allowed = blocks;
    holding.counted += more;
  }

  /** Takes note of what an engine says. */
  report(
    name: string,
    { limit, held, used, wanted, short, required }: Omit<BlockDemand, 'shared' | 'cached'>,
  ): void {
    const holding = this.#open(name);
    holding.used = used;
    holding.wanted = wanted;
    holding.short = short;
    holding.required = required;
    holding.heard = limit === holding.allowed;
    // An engine that has not heard of its limit yet goes by an older one.
    if (holding.heard) holding.counted = Math.max(limit, Math.min(held, holding.counted));
  }

  #open(name: string): OpenHolding {
    const holding = this.#holdings.get(name);
    if (holding === undefined) throw new Error(`no memory is reserved for ${name}`);
    return holding;
  }
}

/** What a model takes when its load begins. */
export function firstBytes({ weightBytes, blockBytes, firstBlocks }: ModelMemory): number {
  return weightBytes + firstBlocks * blockBytes;
}

export function holdingBytes({ memory, counted }: Holding): number {
  return memory.weightBytes + counted * memory.blockBytes;
}
