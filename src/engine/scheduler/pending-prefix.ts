// Finds the running sequence that is about to compute the very block a waiting one needs next.

import { BLOCK_TOKENS } from '../../compute/backend.ts';
import { imagesAt } from '../cache/block-images.ts';
import { fullBlocks, reusableBlocks } from '../cache/block-tables.ts';
import type { Sequence } from './sequence.ts';

interface PendingPrefix {
  readonly owner: Sequence;
  /** Whole blocks that the two have in common and the waiting one could reuse. */
  readonly blocks: number;
}

/** `matched`: the blocks that the waiting sequence finds in the cache now. */
export function pendingPrefix(
  sequence: Sequence,
  matched: readonly number[],
  running: readonly Sequence[],
): PendingPrefix | undefined {
  const limit = reusableBlocks(sequence);
  if (matched.length === limit) return undefined;
  for (const owner of running) {
    if (!endsAt(owner, matched, sequence.salt)) continue;
    const blocks = commonBlocks(sequence, owner, matched.length, limit);
    if (blocks > matched.length) return { owner, blocks };
  }
  return undefined;
}

/** Whether what the owner has published is exactly the matched prefix. Equal blocks mean equal prefixes. */
function endsAt(owner: Sequence, matched: readonly number[], salt: string): boolean {
  const last = matched.length - 1;
  return fullBlocks(owner) === matched.length && owner.salt === salt && owner.blocks[last] === matched[last];
}

/** Leading blocks with equal tokens and images, knowing that the first `known` are, up to `limit`. */
function commonBlocks(a: Sequence, b: Sequence, known: number, limit: number): number {
  const end = Math.min(limit, Math.floor(b.length / BLOCK_TOKENS)) * BLOCK_TOKENS;
  let position = known * BLOCK_TOKENS;
  while (position < end && a.storage[position] === b.storage[position]) {
    if (position % BLOCK_TOKENS === 0 && imagesAt(a, position) !== imagesAt(b, position)) break;
    position += 1;
  }
  return Math.floor(position / BLOCK_TOKENS);
}
