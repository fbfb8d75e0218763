// A disk that takes its time, takes no more at times, and loses blocks.

import type {
  BlockKey,
  BlockLabel,
  BlockTier,
  BlockTierStats,
  FoundBlocks,
  LabelListener,
} from '../../src/block-store/block-tier.ts';
import { seededRandom } from '../support/random-blocks.ts';

interface Habits {
  readonly seed: number;
  /** How many blocks in a hundred it loses, how many writes it refuses, and how many reads never end. */
  readonly loses: number;
  readonly refuses: number;
  readonly hangs: number;
}

interface KeptBlock {
  readonly tenant: string;
  readonly bytes: Uint8Array;
  readonly label: BlockLabel | undefined;
}

export class UncertainDisk implements BlockTier {
  readonly holder = undefined;
  readonly #habits: Habits;
  readonly #random: () => number;
  readonly #blocks = new Map<string, KeptBlock>();
  #listener: LabelListener | undefined;
  readonly #counts = { hits: 0, misses: 0, damaged: 0, written: 0, dropped: 0, evicted: 0 };

  constructor(habits: Habits) {
    this.#habits = habits;
    this.#random = seededRandom(habits.seed);
  }

  find(keys: readonly BlockKey[]): FoundBlocks {
    let bytes = 0;
    for (const [index, key] of keys.entries()) {
      const block = this.#blocks.get(nameOf(key));
      if (block === undefined) return { blocks: index, bytes };
      bytes += block.bytes.length;
    }
    return { blocks: keys.length, bytes };
  }

  async read(keys: readonly BlockKey[], signal?: AbortSignal): Promise<(Uint8Array | undefined)[]> {
    if (this.#below(100) < this.#habits.hangs) return new Promise(() => {});
    for (let turns = this.#below(6); turns > 0; turns--) {
      await new Promise((resolve) => setImmediate(resolve));
      signal?.throwIfAborted();
    }
    return keys.map((key) => {
      if (this.#below(100) < this.#habits.loses) this.#drop(nameOf(key));
      const block = this.#blocks.get(nameOf(key));
      this.#counts[block === undefined ? 'misses' : 'hits'] += 1;
      return block?.bytes.slice();
    });
  }

  /** Who still reads them finds nothing. */
  giveBack(blocks: readonly Uint8Array[]): void {
    const buffers = blocks.map(({ buffer }) => buffer as ArrayBuffer);
    structuredClone(buffers, { transfer: buffers });
  }

  write(key: BlockKey, tenant: string, bytes: Uint8Array, label?: BlockLabel): boolean {
    if (this.#below(100) < this.#habits.refuses) {
      this.#counts.dropped += 1;
      return false;
    }
    this.#counts.written += 1;
    this.#drop(nameOf(key));
    this.#blocks.set(nameOf(key), { tenant, bytes: bytes.slice(), label });
    if (label !== undefined) this.#listener?.entered(label);
    // It is handed over.
    bytes.fill(0xff);
    return true;
  }

  async remove(tenant: string): Promise<number> {
    const own = [...this.#blocks].filter(([, block]) => block.tenant === tenant);
    for (const [name] of own) this.#drop(name);
    return own.length;
  }

  async flush(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
  }

  stats(): BlockTierStats {
    const rest = { bytesRead: 0, bytesWritten: 0, readMs: 0, writeMs: 0, queuedBytes: 0, bytes: 0 };
    return { blocks: this.#blocks.size, ...this.#counts, ...rest };
  }

  followLabels(listener: LabelListener | undefined): void {
    this.#listener = listener;
    for (const { label } of this.#blocks.values()) if (label !== undefined) listener?.entered(label);
  }

  async close(): Promise<void> {}

  #drop(name: string): void {
    const label = this.#blocks.get(name)?.label;
    this.#blocks.delete(name);
    if (label !== undefined) this.#listener?.left(label);
  }

  #below(limit: number): number {
    return Math.floor(this.#random() * limit);
  }
}

function nameOf(key: BlockKey): string {
  return Buffer.from(key).toString('latin1');
}
