// Blocks that left the engine's memory, in the machine's: least recently used first to go. Knows no disk and no backend.

import type { LabelListener } from '../../block-store/block-tier.ts';
import type { KeyedBlock } from './block-keys.ts';

export interface HostBlock extends KeyedBlock {
  readonly bytes: Uint8Array<ArrayBuffer>;
}

export interface HostStats {
  readonly blocks: number;
  readonly bytes: number;
  readonly limitBytes: number;
  /** Blocks that came up from here. */
  readonly hits: number;
  /** Blocks that went for room. */
  readonly evicted: number;
}

export class HostTier {
  readonly limitBytes: number;
  readonly #onEvict: (block: HostBlock) => void;
  /** By key, the least recently used first. */
  readonly #blocks = new Map<string, HostBlock>();
  #bytes = 0;
  #hits = 0;
  #evicted = 0;
  #listener: LabelListener | undefined;

  /** `onEvict` is given each block that goes for room: its bytes are the listener's from then on. */
  constructor(limitBytes: number, onEvict: (block: HostBlock) => void = () => {}) {
    this.limitBytes = limitBytes;
    this.#onEvict = onEvict;
  }

  /** As BlockTier's. */
  followLabels(listener: LabelListener | undefined): void {
    this.#listener = listener;
    for (const { label } of this.#blocks.values()) if (label !== undefined) listener?.entered(label);
  }

  has(key: Buffer): boolean {
    return this.#blocks.has(nameOf(key));
  }

  /** The bytes stay here, and are not to be changed. */
  get(key: Buffer): Uint8Array | undefined {
    const block = this.#blocks.get(nameOf(key));
    if (block !== undefined) this.#hits += 1;
    return block?.bytes;
  }

  /** It was used just now. Those of a chain are touched from its end on, so that no parent goes before its children. */
  touch(key: Buffer): boolean {
    const name = nameOf(key);
    const block = this.#blocks.get(name);
    if (block === undefined) return false;
    this.#blocks.delete(name);
    this.#blocks.set(name, block);
    return true;
  }

  /** False, and the block is still the caller's, where it is larger than all the room there is. */
  put(block: HostBlock): boolean {
    if (this.touch(block.key)) return true;
    if (block.bytes.length > this.limitBytes) return false;
    this.#blocks.set(nameOf(block.key), block);
    this.#bytes += block.bytes.length;
    if (block.label !== undefined) this.#listener?.entered(block.label);
    for (const [name, oldest] of this.#blocks) {
      if (this.#bytes <= this.limitBytes) break;
      this.#drop(name, oldest);
      this.#evicted += 1;
      this.#onEvict(oldest);
    }
    return true;
  }

  drop(key: Buffer): void {
    const name = nameOf(key);
    const block = this.#blocks.get(name);
    if (block !== undefined) this.#drop(name, block);
  }

  /** How many there were. */
  remove(tenant: string): number {
    let count = 0;
    for (const [name, block] of this.#blocks) {
      if (block.tenant !== tenant) continue;
      this.#drop(name, block);
      count += 1;
    }
    return count;
  }

  /** The most recently used first, so that what is kept of it in a short time is what is wanted soonest. */
  all(): HostBlock[] {
    return [...this.#blocks.values()].reverse();
  }

  stats(): HostStats {
    const { limitBytes } = this;
    return {
      blocks: this.#blocks.size,
      bytes: this.#bytes,
      limitBytes,
      hits: this.#hits,
      evicted: this.#evicted,
    };
  }

  #drop(name: string, { bytes, label }: HostBlock): void {
    this.#blocks.delete(name);
    if (label !== undefined) this.#listener?.left(label);
    this.#bytes -= bytes.length;
  }
}

function nameOf(key: Buffer): string {
  return key.toString('latin1');
}
