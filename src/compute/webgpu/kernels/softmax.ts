// Joining two parts of a softmax: the largest score, the sum of weights and the weighted values of each. All joins are
// made of the same lines, so that a history gives the same bits however it is shared out.

/** Less than any score. */
export const NOTHING = '-3.0e38';

/** Adds the part (`m`, `l`, `acc…`) to the whole (`M`, `L`, `ACC…`, with a prefix where given), all of them variables. */
export function joinParts(values: number, whole = ''): string {
  const lines = Array.from(
    { length: values },
    (_, i) => `${whole}ACC${i} = fma(${whole}ACC${i}, keep, acc${i} * take);`,
  );
  return /* wgsl */ `{
      let larger = max(${whole}M, m);
      let keep = exp(${whole}M - larger);
      let take = exp(m - larger);
      ${whole}L = fma(${whole}L, keep, l * take);
      ${lines.join('\n      ')}
      ${whole}M = larger;
    }`;
}
