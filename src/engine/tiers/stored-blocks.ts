// Where a chain of blocks lies below the engine's memory, and their bytes: the machine's memory first, then the disk. Blocks go down
// from one to the other.

import type { BlockTier } from '../../block-store/block-tier.ts';
import type { TierName } from '../scheduler/lower-tiers.ts';
import { stateKey } from './block-keys.ts';
import { type HostBlock, HostTier } from './host-tier.ts';

/** Blocks of a chain that follow each other, and are all in one tier at least. */
export interface StoredRun {
  readonly blocks: number;
  /** The slowest tier of those that have them. */
  readonly tier: TierName;
  readonly diskBlocks: number;
}

export class StoredBlocks {
  readonly host: HostTier | undefined;
  #disk: BlockTier | undefined;
  /** Blocks of these are kept no more. */
  readonly #removed = new Set<string>();

  constructor(hostBytes: number) {
    if (hostBytes > 0) this.host = new HostTier(hostBytes, (block) => this.#putOnDisk(block));
  }

  get disk(): BlockTier | undefined {
    return this.#disk;
  }

  attach(disk: BlockTier): void {
    this.#disk = disk;
  }

  isRemoved(tenant: string): boolean {
    return this.#removed.has(tenant);
  }

  hasOnDisk(key: Buffer): boolean {
    return this.#disk !== undefined && this.#disk.find([key]).blocks === 1;
  }

  has(key: Buffer): boolean {
    return this.host?.has(key) === true || this.hasOnDisk(key);
  }

  /** How far the chain goes. */
  run(keys: readonly Buffer[]): StoredRun | undefined {
    let blocks = 0;
    let diskBlocks = 0;
    while (blocks < keys.length) {
      if (this.host?.has(keys[blocks] as Buffer) === true) {
        blocks += 1;
        continue;
      }
      const found = this.#disk?.find(keys.slice(blocks)).blocks ?? 0;
      if (found === 0) break;
      blocks += found;
      diskBlocks += found;
    }
    return blocks === 0 ? undefined : { blocks, tier: diskBlocks > 0 ? 'disk' : 'host', diskBlocks };
  }

  /** In the order of the keys, and the caller's; undefined for what cannot be had. */
  async read(keys: readonly Buffer[]): Promise<(Uint8Array | undefined)[]> {
    // What is in the machine's memory stays there.
    const blocks: (Uint8Array | undefined)[] = keys.map((key) => this.host?.get(key)?.slice());
    const missing = keys.filter((_, at) => blocks[at] === undefined);
    const read = missing.length === 0 ? [] : ((await this.#disk?.read(missing)) ?? []);
    return blocks.map((block) => block ?? read.shift());
  }

  /** Also of the chain's states. What the disk has stays there. */
  dropFromHost(keys: readonly Buffer[]): void {
    for (const key of keys) {
      this.host?.drop(key);
      this.host?.drop(stateKey(key));
    }
  }

  /** Keeps a block that leaves memory. What the machine's memory has no room for goes to the disk. */
  put(block: HostBlock): void {
    if (this.#removed.has(block.tenant)) return;
    if (this.host?.put(block) !== true) this.#putOnDisk(block);
  }

  /** False where the disk takes no more for now. */
  putOnDisk({ key, tenant, bytes, label }: HostBlock): boolean {
    if (this.#removed.has(tenant)) return true;
    return this.#disk?.write(key, tenant, bytes, label) ?? false;
  }

  async remove(tenant: string): Promise<number> {
    this.#removed.add(tenant);
    const host = this.host?.remove(tenant) ?? 0;
    return host + ((await this.#disk?.remove(tenant)) ?? 0);
  }

  #putOnDisk(block: HostBlock): void {
    this.putOnDisk(block);
  }
}
