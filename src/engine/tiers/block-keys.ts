// The keys by which blocks are found in lower tiers, the same in every process: a chain of SHA-256 over (parent's key, 32 tokens,
// what they show). In memory tokens are compared; below there is the key alone, so no two prefixes may ever have the same.

import { createHash } from 'node:crypto';
import type { BlockLabel } from '../../block-store/block-tier.ts';
import { BLOCK_TOKENS } from '../../compute/backend.ts';
import type { BlockHolder } from '../cache/block-holder.ts';
import { imagesAt } from '../cache/block-images.ts';
import type { PrefixCache } from '../cache/prefix-cache.ts';
import { KEY_LANES, type PrefixNode, writeBlockKey, writeRootKey } from '../cache/prefix-key.ts';

/** What all blocks of a model have in common that can be exchanged. */
export interface ModelIdentity {
  /** A hash of its files, and of whatever else its keys and values depend on. */
  readonly model: string;
  /** The same of each of its adapters, by number. */
  readonly adapters: readonly string[];
}

export interface KeyedBlock {
  /** 32 bytes. */
  readonly key: Buffer;
  /** Whose it is: what is deleted together. */
  readonly tenant: string;
  /** The key of its prefix as other processes know it; absent from states, and of an adapter, whose number is this process's own. */
  readonly label?: BlockLabel | undefined;
}

/** A sequence's salt is `adapter:tenant`, or `adapter:tenant:more`. */
const SALT = /^(\d*):([^:]*)/;

export function tenantOf(salt: string): string {
  return SALT.exec(salt)?.[2] ?? '';
}

export class BlockKeys {
  readonly #prefixes: PrefixCache;
  readonly #identity: ModelIdentity;
  readonly #roots = new Map<string, Buffer>();
  readonly #rootLabels = new Map<string, BlockLabel | undefined>();
  readonly #lanes = new Int32Array(2 * KEY_LANES);
  /** By block, once it was asked for. */
  readonly #known: (KeyedBlock | undefined)[] = [];
  /** Of sequences that wait, as far as they were asked for. */
  readonly #chains = new WeakMap<BlockHolder, Buffer[]>();

  constructor(prefixes: PrefixCache, identity: ModelIdentity) {
    this.#prefixes = prefixes;
    this.#identity = identity;
  }

  /** Of a cached block. */
  of(block: number): KeyedBlock {
    const open: number[] = [];
    let node: PrefixNode = block;
    while (node >= 0 && this.#known[node] === undefined) {
      open.push(node);
      node = this.#prefixes.parentOf(node);
    }
    const above = node >= 0 ? (this.#known[node] as KeyedBlock) : undefined;
    const salt = node >= 0 ? '' : this.#prefixes.saltAt(node);
    let parent = above?.key;
    let label = node >= 0 ? above?.label : this.#rootLabel(salt);
    const tenant = above?.tenant ?? tenantOf(salt);
    for (const own of open.reverse()) {
      const { tokens, images } = this.#prefixes.contentOf(own);
      const key = blockKey(parent ?? this.#root(salt), tokens, images);
      label = label && this.#labelAfter(label, tokens, images);
      this.#known[own] = { key, tenant, label };
      parent = key;
    }
    return this.#known[block] as KeyedBlock;
  }

  /** The block is no longer what it was. */
  forget(block: number): void {
    this.#known[block] = undefined;
  }

  /** Keys of a sequence's first blocks, whether they are in memory or not. */
  chain(holder: BlockHolder, count: number): readonly Buffer[] {
    const keys = this.#chains.get(holder) ?? [];
    this.#chains.set(holder, keys);
    while (keys.length < count) {
      const offset = keys.length * BLOCK_TOKENS;
      const tokens = holder.storage.subarray(offset, offset + BLOCK_TOKENS);
      keys.push(blockKey(keys.at(-1) ?? this.#root(holder.salt), tokens, imagesAt(holder, offset)));
    }
    return keys.length === count ? keys : keys.slice(0, count);
  }

  /** As in PrefixEventLog. */
  #rootLabel(salt: string): BlockLabel | undefined {
    if (!this.#rootLabels.has(salt)) {
      const hasAdapter = SALT.exec(salt)?.[1] !== '';
      if (!hasAdapter) writeRootKey('', salt, this.#lanes, 0);
      const [high, low] = this.#lanes as unknown as [number, number];
      this.#rootLabels.set(salt, hasAdapter ? undefined : { high, low });
    }
    return this.#rootLabels.get(salt);
  }

  #labelAfter({ high, low }: BlockLabel, tokens: Int32Array, images: string): BlockLabel {
    const lanes = this.#lanes;
    lanes[0] = high;
    lanes[1] = low;
    writeBlockKey(lanes, 0, tokens, 0, lanes, KEY_LANES, images);
    return { high: lanes[KEY_LANES] as number, low: lanes[KEY_LANES + 1] as number };
  }

  #root(salt: string): Buffer {
    const known = this.#roots.get(salt);
    if (known !== undefined) return known;
    const { model, adapters } = this.#identity;
    const adapter = SALT.exec(salt)?.[1] ?? '';
    const own = adapter === '' ? '' : adapters[Number(adapter)];
    if (own === undefined) throw new Error(`nothing is known of adapter ${adapter}`);
    const text = JSON.stringify(['chairlift KV', model, own, salt.slice(adapter.length)]);
    const root = createHash('sha256').update(text).digest();
    this.#roots.set(salt, root);
    return root;
  }
}

/** The key of the recurrent states after a block. */
export function stateKey(block: Buffer): Buffer {
  return createHash('sha256').update(block).update('state').digest();
}

function blockKey(parent: Buffer, tokens: Int32Array, images: string): Buffer {
  const hash = createHash('sha256').update(parent);
  hash.update(new Uint8Array(tokens.buffer, tokens.byteOffset, tokens.byteLength));
  // Tokens have a fixed length: nothing runs together.
  return (images === '' ? hash : hash.update(images)).digest();
}
