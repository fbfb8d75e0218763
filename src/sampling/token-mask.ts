// Sets of tokens as bits: bit `id % 32` of word `id / 32` is set where a token is allowed.

export function maskOf(ids: readonly number[] | undefined, vocabSize: number): Uint32Array | undefined {
  if (ids === undefined) return undefined;
  const mask = new Uint32Array(Math.ceil(vocabSize / 32));
  for (const id of ids) mask[id >>> 5] = (mask[id >>> 5] as number) | (1 << (id & 31));
  return mask;
}

/** What both allow. */
export function intersection(
  one: Uint32Array | undefined,
  other: Uint32Array | undefined,
): Uint32Array | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return one.map((word, at) => word & (other[at] ?? 0));
}

/** Whether a mask allows anything that is not forbidden. */
export function isAnyLeft(mask: Uint32Array, forbidden: readonly number[]): boolean {
  const taken = new Map<number, number>();
  for (const token of forbidden) taken.set(token >>> 5, (taken.get(token >>> 5) ?? 0) | (1 << (token & 31)));
  return mask.some((word, at) => (word & ~(taken.get(at) ?? 0)) !== 0);
}

/** Whether a mask allows a token; without one, all are allowed. */
export function isAllowed(mask: Uint32Array | undefined, token: number): boolean {
  return mask === undefined || (((mask[token >>> 5] as number) >>> (token & 31)) & 1) === 1;
}
