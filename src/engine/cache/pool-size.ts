// How many blocks a pool gets: a count that someone chose, or what fits a memory budget.

type PoolSize =
  | { readonly kind: 'blocks'; readonly count: number }
  | { readonly kind: 'memory'; readonly bytes: number; readonly bytesPerBlock: number };

export function poolBlockCount(size: PoolSize): number {
  const count = size.kind === 'blocks' ? size.count : Math.floor(size.bytes / size.bytesPerBlock);
  if (Number.isSafeInteger(count) && count >= 1) return count;
  throw new RangeError(
    size.kind === 'blocks'
      ? `a KV cache needs a whole number of blocks, at least 1, not ${size.count}`
      : `a KV cache of ${size.bytes} bytes holds no block of ${size.bytesPerBlock} bytes: give it more memory`,
  );
}
