// The memory budget at work: loads wait here for room, engines say what they need, and whenever anything changes it
// is shared out anew.

import type { EngineMonitor } from '../engine/engine-monitor.ts';
import { type LongTimer, runAfter } from '../runtime/timers.ts';
import { firstBytes, holdingBytes, MemoryLedger } from './memory-ledger.ts';
import type { ModelMemory } from './model-memory.ts';
import { type Holder, mostBytes, type Sharing, shareMemory, type WaitingLoad } from './share-memory.ts';

/** How a model stands apart from its memory. */
export type Standing = Pick<Holder, 'state' | 'unloadable' | 'pinned' | 'turn' | 'lastUsed' | 'oldestMs'>;

interface MemoryListener {
  standing(name: string): Standing;
  /** Who waits for a load. */
  waiting(name: string): LoadWait;
  /** The model is to be unloaded: its room is needed. Must call `release` when it is gone. */
  unload(name: string): void;
  /** Only these are to take no new requests: others wait for their room. */
  close(names: ReadonlySet<string>): void;
}

export interface LoadWait extends Pick<WaitingLoad, 'sinceMs' | 'background'> {
  /** All of them would rather be refused than wait for other models to leave. */
  readonly atOnce: boolean;
}

/** What the budget needs of an engine. */
interface BlockUser {
  readonly monitor: Pick<EngineMonitor, 'subscribe'>;
  /** How many KV blocks it may hold. */
  allow(blocks: number): void;
}

interface Claim {
  readonly name: string;
  readonly memory: ModelMemory;
  /** With undefined where there is room now, else with the reason why there is none. */
  settle(refusal: string | undefined): void;
}

/** The reason of a claim that was taken back. */
export const withdrawn = 'nobody waits for it any more';

export class PoolMemory {
  readonly #ledger: MemoryLedger;
  readonly #listener: MemoryListener;
  readonly #nowMs: () => number;
  readonly #claims: Claim[] = [];
  readonly #engines = new Map<string, BlockUser>();
  #again: LongTimer | undefined;
  #closed: ReadonlySet<string> = new Set();
  #sharing = false;
  #changed = false;

  /** The clock counts milliseconds since 1970, as requests do. */
  constructor(budgetBytes: number, listener: MemoryListener, nowMs: () => number = Date.now) {
    this.#ledger = new MemoryLedger(budgetBytes);
    this.#listener = listener;
    this.#nowMs = nowMs;
  }

  /** What counts for a model now; 0 where it has nothing. */
  bytesOf(name: string): number {
    const holding = this.#ledger.holding(name);
    return holding === undefined ? 0 : holdingBytes(holding);
  }

  /** Of a model that is loaded or being loaded. */
  weightBytesOf(name: string): number {
    return this.#ledger.holding(name)?.memory.weightBytes ?? 0;
  }

  /**
   * Room for a load: taken before this returns where there is any, so that two loads never count on the same. Otherwise
   * it is waited for. Resolves with a reason where there can be none, or the claim is withdrawn.
   */
  claim(name: string, memory: ModelMemory): Promise<string | undefined> {
    return new Promise((settle) => {
      this.#claims.push({ name, memory, settle });
      this.share();
    });
  }

  /** Nobody wants the model any more. Nothing happens where it does not wait for room. */
  withdraw(name: string): void {
    if (!this.isWaiting(name)) return;
    this.#takeClaim(name).settle(withdrawn);
    this.share();
  }

  /** Whether a load waits for room. */
  isWaiting(name: string): boolean {
    return this.#claims.some((claim) => claim.name === name);
  }

  /** The model's engine is ready: from now on it says what it needs. */
  attach(name: string, engine: BlockUser): void {
    this.#engines.set(name, engine);
    engine.monitor.subscribe({
      blocks: (demand) => {
        if (this.#engines.get(name) !== engine) return;
        this.#ledger.report(name, demand);
        this.share();
      },
    });
  }

  /** Its engine is gone, or never came. */
  release(name: string): void {
    this.#engines.delete(name);
    this.#ledger.release(name);
    this.share();
  }

  /** Refuses all loads that wait. */
  close(reason: string): void {
    this.#again?.cancel();
    for (const { settle } of this.#claims.splice(0)) settle(reason);
  }

  /** Shares out anew, as things stand. */
  share(): void {
    // What is decided may change things at once: they are looked at again afterwards.
    this.#changed = true;
    if (this.#sharing) return;
    this.#sharing = true;
    try {
      while (this.#changed) {
        this.#changed = false;
        this.#shareOnce();
      }
    } finally {
      this.#sharing = false;
    }
  }

  #shareOnce(): void {
    this.#again?.cancel();
    const holdings = this.#ledger.holdings();
    if (this.#claims.length === 0 && holdings.every(({ wanted, allowed }) => wanted <= allowed)) {
      this.#close([]);
      return;
    }
    const { budgetBytes } = this.#ledger;
    const holders = holdings.map((holding) => ({ ...holding, ...this.#listener.standing(holding.name) }));
    this.#refuseLargest(mostBytes(budgetBytes, holders));
    const loads = this.#claims.map((claim) => ({ ...claim, ...this.#listener.waiting(claim.name) }));
    const nowMs = this.#nowMs();
    const sharing = shareMemory(budgetBytes, holders, loads, nowMs);
    this.#carryOut(sharing);
    if (sharing.againMs !== undefined) this.#again = runAfter(sharing.againMs - nowMs, () => this.share());
  }

  #carryOut({ allow, unload, fitting, waiting, closed }: Sharing): void {
    for (const name of fitting) {
      const claim = this.#takeClaim(name);
      if (!this.#ledger.reserve(name, claim.memory)) throw new Error(`there is no room for ${name}`);
      claim.settle(undefined);
    }
    for (const name of waiting) {
      if (!this.#listener.waiting(name).atOnce) continue;
      const claim = this.#takeClaim(name);
      claim.settle(this.#noRoomNow(claim));
    }
    for (const { name, blocks } of allow) {
      this.#ledger.allow(name, blocks);
      this.#engines.get(name)?.allow(blocks);
    }
    this.#close(closed);
    for (const name of unload) this.#listener.unload(name);
  }

  #close(names: readonly string[]): void {
    if (names.length === 0 && this.#closed.size === 0) return;
    this.#closed = new Set(names);
    this.#listener.close(this.#closed);
  }

  /** What can never fit does not wait. */
  #refuseLargest(mostBytes: number): void {
    for (const { name, memory } of this.#claims.filter((claim) => firstBytes(claim.memory) > mostBytes)) {
      const { budgetBytes } = this.#ledger;
      const reason = `${name} needs ${megabytes(firstBytes(memory))}, but the memory budget is ${megabytes(budgetBytes)}, of which ${megabytes(budgetBytes - mostBytes)} belong to pinned models`;
      this.#takeClaim(name).settle(reason);
    }
  }

  #takeClaim(name: string): Claim {
    const at = this.#claims.findIndex((claim) => claim.name === name);
    const [claim] = this.#claims.splice(at, 1);
    if (at < 0 || claim === undefined) throw new Error(`${name} does not wait for room`);
    return claim;
  }

  #noRoomNow({ name, memory }: Claim): string {
    const { budgetBytes, freeBytes } = this.#ledger;
    return `${name} needs ${megabytes(firstBytes(memory))}, but ${megabytes(freeBytes)} of the memory budget of ${megabytes(budgetBytes)} are free, and models that are in use or pinned hold the rest`;
  }
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / 1e6).toLocaleString('en-US')} MB`;
}
