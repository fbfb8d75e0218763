// How many draft tokens each sequence gets: as many as make the step worth most, in tokens a millisecond.

/**
 * What draft tokens must promise over none, since costs are measured on machines that are never quite still. Where many decode,
 * each draft token adds little to the step, and what it costs is known less well.
 */
const LEAST_GAIN = { few: 0.02, many: 0.3 } as const;
const FEW_SEQUENCES = 8;

/**
 * `probabilities`: for each sequence, of each of its draft tokens in turn, that this one and all before it are right; `stepMs`: how
 * long the step takes with so many draft tokens. Gives how many of each sequence's draft tokens are worth their rows.
 */
export function draftLengths(
  probabilities: readonly (readonly number[])[],
  sequences: number,
  stepMs: (draftTokens: number) => number,
): number[] {
  const counts = probabilities.map(() => 0);
  let best = [...counts];
  let tokens = sequences;
  const leastGain = sequences <= FEW_SEQUENCES ? LEAST_GAIN.few : LEAST_GAIN.many;
  let highest = (1 + leastGain) * (tokens / stepMs(0));
  for (let draftTokens = 1; ; draftTokens++) {
    const next = mostLikely(probabilities, counts);
    if (next === undefined) return best;
    tokens += probabilities[next]?.[counts[next] as number] as number;
    counts[next] = (counts[next] as number) + 1;
    const worth = tokens / stepMs(draftTokens);
    if (worth <= highest) continue;
    highest = worth;
    best = [...counts];
  }
}

/** Whose next draft token is most likely right. */
function mostLikely(
  probabilities: readonly (readonly number[])[],
  counts: readonly number[],
): number | undefined {
  let most: number | undefined;
  let highest = 0;
  for (const [i, list] of probabilities.entries()) {
    const probability = list[counts[i] as number];
    if (probability !== undefined && probability > highest) [most, highest] = [i, probability];
  }
  return most;
}
