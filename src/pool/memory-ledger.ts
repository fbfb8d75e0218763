// Who holds how much of the memory budget. Weights count from the moment a load begins until its engine is gone. K/V
// blocks count as far as an engine may hold them: a larger limit counts at once, a smaller one only when the engine
// has said that it holds no more. So the sum never exceeds the budget, and neither does what is really held.

import type { BlockDemand } from '../engine/scheduler/stats.ts';
import type { ModelMemory } from './model-memory.ts';

export interface Account {
  readonly name: string;
  readonly memory: ModelMemory;
  /** Blocks its engine was told it may hold. */
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
  /** The largest limit under which not one of its sequences could run; undefined where they can. */
  readonly stuckAt: number | undefined;
}

type OpenAccount = { -readonly [Part in keyof Account]: Account[Part] };

export class MemoryLedger {
  readonly budgetBytes: number;
  readonly #accounts = new Map<string, OpenAccount>();

  constructor(budgetBytes: number) {
    this.budgetBytes = budgetBytes;
  }

  get freeBytes(): number {
    return this.budgetBytes - this.accounts().reduce((sum, account) => sum + accountBytes(account), 0);
  }

  accounts(): readonly Account[] {
    return [...this.#accounts.values()];
  }

  account(name: string): Account | undefined {
    return this.#accounts.get(name);
  }

  /** Counts a model's weights and its first blocks; false, and nothing counted, where they do not fit. */
  reserve(name: string, memory: ModelMemory): boolean {
    if (this.#accounts.has(name)) throw new Error(`memory of ${name} is reserved already`);
    if (firstBytes(memory) > this.freeBytes) return false;
    const blocks = memory.firstBlocks;
    this.#accounts.set(name, {
      name,
      memory,
      allowed: blocks,
      counted: blocks,
      heard: false,
      used: 0,
      wanted: 0,
      short: false,
      stuckAt: undefined,
    });
    return true;
  }

  /** Its engine is gone. */
  release(name: string): void {
    this.#accounts.delete(name);
  }

  /** Takes note of what an engine is told. */
  allow(name: string, blocks: number): void {
    const account = this.#open(name);
    const { blockCount, blockBytes } = account.memory;
    if (!Number.isInteger(blocks) || blocks < 0 || blocks > blockCount)
      throw new RangeError(`${name} has ${blockCount} blocks and cannot be allowed ${blocks}`);
    const more = Math.max(0, blocks - account.counted);
    // With one new limit on its way at most, a report tells which of two it knows of.
    if (!account.heard) throw new Error(`${name} has not heard of its last limit yet`);
    if (more * blockBytes > this.freeBytes) throw new Error(`${blocks} blocks of ${name} are not free`);
    account.heard = blocks === account.allowed;
    account.allowed = blocks;
    account.counted += more;
  }

  /** Takes note of what an engine says. */
  report(name: string, { limit, held, used, wanted, short }: BlockDemand): void {
    const account = this.#open(name);
    account.used = used;
    account.wanted = wanted;
    account.short = short;
    account.heard = limit === account.allowed;
    // An engine that has not heard of its limit yet goes by an older one.
    if (account.heard) account.counted = Math.max(limit, Math.min(held, account.counted));
    const isStuck = short && used === 0;
    account.stuckAt = isStuck ? Math.max(limit, account.stuckAt ?? 0) : undefined;
  }

  #open(name: string): OpenAccount {
    const account = this.#accounts.get(name);
    if (account === undefined) throw new Error(`no memory is reserved for ${name}`);
    return account;
  }
}

/** What a model takes when its load begins. */
export function firstBytes({ weightBytes, blockBytes, firstBlocks }: ModelMemory): number {
  return weightBytes + firstBlocks * blockBytes;
}

export function accountBytes({ memory, counted }: Account): number {
  return memory.weightBytes + counted * memory.blockBytes;
}
