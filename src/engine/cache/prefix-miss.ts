// Why a prompt's next block was not in the prefix cache when it was looked for: for people who wonder what their cache
// is good for. Bounded work, once for each sequence.

import { BLOCK_TOKENS } from '../../compute/backend.ts';
import type { BlockHolder } from './block-holder.ts';
import { imagesAt } from './block-images.ts';
import { reusableBlocks } from './block-tables.ts';
import type { PrefixCache } from './prefix-cache.ts';
import type { PrefixNode } from './prefix-key.ts';

export interface PrefixMiss {
  /**
   * `end`: nothing more could be found, because less than a block was left, or the last token must be computed.
   * `new`: nobody with this salt has computed it, as far as is known. `differs`: what was computed after the same prefix
   * begins alike. `evicted`: it was there, and its block was taken. `not-shared`: blocks of this model are not shared, or
   * not here, because there is no checkpoint of its recurrent state. `not-loaded`: it lies in a lower tier, and would have taken
   * longer to come up than to compute.
   */
  readonly why: 'end' | 'new' | 'differs' | 'evicted' | 'not-shared' | 'not-loaded';
  /** With `not-loaded`: where it lies. */
  readonly tier?: 'host' | 'disk';
  /** With `differs`: the first token that is another one than in the nearest cached block. */
  readonly firstDifference?: number;
  /** Somebody with another salt has it. */
  readonly elsewhere?: true;
}

export const notShared: PrefixMiss = { why: 'not-shared' };

/**
 * `found`: its blocks in the cache. `matched`: those of them, from the first on, that it can go on with. `tier`: that could have
 * given it more.
 */
export function prefixMiss(
  prefixes: PrefixCache,
  holder: BlockHolder,
  found: readonly number[],
  matched: readonly number[],
  tier?: 'host' | 'disk',
): PrefixMiss {
  if (tier !== undefined) return { why: 'not-loaded', tier };
  if (found.length > matched.length) return notShared;
  if (found.length === reusableBlocks(holder)) return { why: 'end' };
  const { salt, storage } = holder;
  const parent: PrefixNode = found.at(-1) ?? prefixes.root(salt);
  const shown = (offset: number) => imagesAt(holder, offset);
  const own = missAfter(prefixes, parent, holder, found.length * BLOCK_TOKENS);
  const isElsewhere = prefixes.isElsewhere(salt, storage, found.length + 1, shown);
  return isElsewhere ? { ...own, elsewhere: true } : own;
}

function missAfter(
  prefixes: PrefixCache,
  parent: PrefixNode,
  holder: BlockHolder,
  offset: number,
): PrefixMiss {
  const images = imagesAt(holder, offset);
  if (prefixes.wasEvicted(parent, holder.storage, offset, images)) return { why: 'evicted' };
  const common = prefixes.nearest(parent, holder.storage, offset, images);
  return common === 0 ? { why: 'new' } : { why: 'differs', firstDifference: offset + common };
}
