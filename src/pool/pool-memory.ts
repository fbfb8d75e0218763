// The memory budget at work: loads wait here for room, engines say what they need, and whenever anything changes it
// is shared out anew.

import type { EngineHandle } from './engine-handle.ts';
import { firstBytes, holdingBytes, MemoryLedger } from './memory-ledger.ts';
import type { ModelMemory } from './model-memory.ts';
import { type Holder, shareMemory, type WaitingLoad } from './share-memory.ts';

/** How a model stands apart from its memory. */
export type Standing = Pick<Holder, 'state' | 'unloadable' | 'lastUsed' | 'oldestMs'>;

export interface MemoryListener {
  standing(name: string): Standing;
  /** The model is to be unloaded: its room is needed. Must call `release` when it is gone. */
  unload(name: string): void;
}

interface Claim extends WaitingLoad {
  /** With undefined where there is room now, else with the reason why there is none. */
  settle(refusal: string | undefined): void;
}

export class PoolMemory {
  readonly #ledger: MemoryLedger;
  readonly #listener: MemoryListener;
  readonly #claims: Claim[] = [];
  readonly #engines = new Map<string, EngineHandle>();
  #sharing = false;
  #again = false;

  constructor(budgetBytes: number, listener: MemoryListener) {
    this.#ledger = new MemoryLedger(budgetBytes);
    this.#listener = listener;
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
   * Room for a load: taken before this returns where there is any, so that two loads never count on the same. Resolves
   * with a reason where no room can be made.
   */
  claim(name: string, memory: ModelMemory): Promise<string | undefined> {
    return new Promise((settle) => {
      this.#claims.push({ name, memory, sinceMs: Date.now(), settle });
      this.share();
    });
  }

  /** The model's engine is ready: from now on it says what it needs. */
  attach(name: string, engine: EngineHandle): void {
    this.#engines.set(name, engine);
    engine.onBlocks((demand) => {
      if (this.#engines.get(name) !== engine) return;
      this.#ledger.report(name, demand);
      this.share();
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
    for (const { settle } of this.#claims.splice(0)) settle(reason);
  }

  /** Shares out anew, as things stand. */
  share(): void {
    // What is decided may change things at once: they are looked at again afterwards.
    this.#again = true;
    if (this.#sharing) return;
    this.#sharing = true;
    try {
      while (this.#again) {
        this.#again = false;
        this.#shareOnce();
      }
    } finally {
      this.#sharing = false;
    }
  }

  #shareOnce(): void {
    const holdings = this.#ledger.holdings();
    if (this.#claims.length === 0 && holdings.every(({ wanted, allowed }) => wanted <= allowed)) return;
    const holders = holdings.map((holding) => ({ ...holding, ...this.#listener.standing(holding.name) }));
    const { allow, unload, fitting, hopeless } = shareMemory(this.#ledger.budgetBytes, holders, this.#claims);
    for (const name of fitting) {
      const claim = this.#takeClaim(name);
      if (!this.#ledger.reserve(name, claim.memory)) throw new Error(`there is no room for ${name}`);
      claim.settle(undefined);
    }
    for (const name of hopeless) {
      const claim = this.#takeClaim(name);
      claim.settle(this.#refusal(claim));
    }
    for (const { name, blocks } of allow) {
      this.#ledger.allow(name, blocks);
      this.#engines.get(name)?.allow(blocks);
    }
    for (const name of unload) this.#listener.unload(name);
  }

  #takeClaim(name: string): Claim {
    const at = this.#claims.findIndex((claim) => claim.name === name);
    const [claim] = this.#claims.splice(at, 1);
    if (at < 0 || claim === undefined) throw new Error(`${name} does not wait for room`);
    return claim;
  }

  #refusal({ name, memory }: Claim): string {
    const { budgetBytes, freeBytes } = this.#ledger;
    return `${name} needs ${megabytes(firstBytes(memory))}, but ${megabytes(freeBytes)} of the memory budget of ${megabytes(budgetBytes)} are free, and models that are in use or pinned hold the rest`;
  }
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / 1e6).toLocaleString('en-US')} MB`;
}
