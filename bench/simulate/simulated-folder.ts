// A folder of KV blocks that simulated workers share: what one has computed lies there from the end of its answer on, and others see
// it some seconds later. It never forgets.

import { BLOCK_TOKENS } from '#src/compute/backend.ts';
import type { BlockHolder } from '#src/engine/cache/block-holder.ts';
import type { CacheListener } from '#src/engine/cache/block-tables.ts';
import { reusableBlocks } from '#src/engine/cache/block-tables.ts';
import { KEY_LANES } from '#src/engine/cache/prefix-key.ts';
import type { LoadOffer, LowerTiers } from '#src/engine/scheduler/lower-tiers.ts';
import { promptKeys } from '#src/fleet/routing/prefix-keys.ts';

/** As the block store follows what other processes write. */
const SEEN_AFTER_MS = 5000;

export class SimulatedFolder {
  readonly blockMs: number;
  /** By key: from when on everybody sees it. */
  readonly #seenMs = new Map<string, number>();
  /** In the order of #seenMs. */
  readonly #keys: { readonly high: number; readonly low: number; readonly seenMs: number }[] = [];
  #told = 0;

  constructor(blockMs: number) {
    this.blockMs = blockMs;
  }

  add(keys: Int32Array, nowMs: number): void {
    for (let at = 0; at < keys.length; at += KEY_LANES) {
      const [high, low] = [keys[at] as number, keys[at + 1] as number];
      const name = `${high} ${low}`;
      if (this.#seenMs.has(name)) continue;
      const seenMs = nowMs + SEEN_AFTER_MS;
      this.#seenMs.set(name, seenMs);
      this.#keys.push({ high, low, seenMs });
    }
  }

  /** Blocks that follow each other, from that one on. */
  run(keys: Int32Array, from: number, nowMs: number): number {
    let block = from;
    for (; block < keys.length / KEY_LANES; block++) {
      const name = `${keys[block * KEY_LANES]} ${keys[block * KEY_LANES + 1]}`;
      if ((this.#seenMs.get(name) ?? Number.POSITIVE_INFINITY) > nowMs) break;
    }
    return block - from;
  }

  /** What has come to be seen since the last call. */
  takeNews(nowMs: number): Int32Array {
    const first = this.#told;
    while (this.#told < this.#keys.length && (this.#keys[this.#told]?.seenMs ?? 0) <= nowMs) this.#told++;
    return lanesOf(this.#keys.slice(first, this.#told));
  }

  /** All that was told so far. */
  seen(): Int32Array {
    return lanesOf(this.#keys.slice(0, this.#told));
  }
}

/** What one worker's scheduler asks about the folder. */
export function tierOf(
  folder: SimulatedFolder,
  nowMs: () => number,
): LowerTiers & Pick<CacheListener, 'released'> {
  const known = new WeakMap<BlockHolder, Int32Array>();
  const keysOf = (holder: BlockHolder, blocks: number): Int32Array => {
    const before = known.get(holder);
    if (before !== undefined && before.length / KEY_LANES >= blocks) return before;
    // The first row after them must be computed.
    const tokens = holder.storage.subarray(0, blocks * BLOCK_TOKENS + 1);
    const keys = promptKeys({ modelKey: '', salt: holder.salt, tokens });
    known.set(holder, keys);
    return keys;
  };
  return {
    offer(holder, found, resumable): LoadOffer | undefined {
      const most = reusableBlocks(holder);
      const keys = keysOf(holder, most).subarray(0, most * KEY_LANES);
      const blocks = folder.run(keys, found.length, nowMs());
      const end = found.length + blocks;
      return end <= resumable ? undefined : { end, ms: blocks * folder.blockMs, tier: 'disk' };
    },
    released(holder) {
      const full = Math.floor((holder.computed - 1) / BLOCK_TOKENS);
      if (full > 0) folder.add(keysOf(holder, full).subarray(0, full * KEY_LANES), nowMs());
    },
  };
}

function lanesOf(keys: readonly { readonly high: number; readonly low: number }[]): Int32Array {
  return Int32Array.from(keys.flatMap(({ high, low }) => [high, low]));
}
