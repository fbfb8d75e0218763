// Joining two parts of a softmax: the largest score, the sum of weights and the weighted values of each. Attention
// within one workgroup and the merge of several use the same lines, so that both give the same bits.

/** Less than any score. */
export const NOTHING = '-3.0e38';

/** Adds the part (`m`, `l`, `acc…`) to the whole (`M`, `L`, `ACC…`), all of them variables. */
export function joinParts(values: number): string {
  const lines = Array.from({ length: values }, (_, i) => `ACC${i} = fma(ACC${i}, keep, acc${i} * take);`);
  return /* wgsl */ `{
      let larger = max(M, m);
      let keep = exp(M - larger);
      let take = exp(m - larger);
      L = fma(L, keep, l * take);
      ${lines.join('\n      ')}
      M = larger;
    }`;
}
