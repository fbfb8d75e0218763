// How many guesses each sequence gets: as many as make the step worth most, in tokens a millisecond.

/**
 * What guesses must promise over none, since costs are measured on machines that are never quite still. Where many decode,
 * each guess adds little to the step, and what it costs is known less well.
 */
const LEAST_GAIN = { few: 0.02, many: 0.3 } as const;
const FEW_SEQUENCES = 8;

/**
 * `chances`: for each sequence, of each of its guesses in turn, that this one and all before it are right; `stepMs`: how
 * long the step takes with so many guesses. Gives how many of each sequence's guesses are worth their rows.
 */
export function shareGuesses(
  chances: readonly (readonly number[])[],
  sequences: number,
  stepMs: (guesses: number) => number,
): number[] {
  const counts = chances.map(() => 0);
  let best = [...counts];
  let tokens = sequences;
  const leastGain = sequences <= FEW_SEQUENCES ? LEAST_GAIN.few : LEAST_GAIN.many;
  let highest = (1 + leastGain) * (tokens / stepMs(0));
  for (let guesses = 1; ; guesses++) {
    const next = mostLikely(chances, counts);
    if (next === undefined) return best;
    tokens += chances[next]?.[counts[next] as number] as number;
    counts[next] = (counts[next] as number) + 1;
    const worth = tokens / stepMs(guesses);
    if (worth <= highest) continue;
    highest = worth;
    best = [...counts];
  }
}

/** Whose next guess is most likely right. */
function mostLikely(chances: readonly (readonly number[])[], counts: readonly number[]): number | undefined {
  let most: number | undefined;
  let highest = 0;
  for (const [i, list] of chances.entries()) {
    const chance = list[counts[i] as number];
    if (chance !== undefined && chance > highest) [most, highest] = [i, chance];
  }
  return most;
}
