// The command line: how long, and by which seed.

export interface ChaosOptions {
  readonly minutes: number;
  readonly seed: number;
}

const usage = 'usage: npm run chaos -- [--minutes N] [--seed S]';
const LONGEST_MINUTES = 24 * 60;

/** What is wrong with them, as a text, where they cannot be used. */
export function parseOptions(words: readonly string[], anySeed: number): ChaosOptions | string {
  let minutes = 1;
  let seed = anySeed;
  for (let at = 0; at < words.length; at += 2) {
    const value = Number(words[at + 1] || Number.NaN);
    if (words[at] === '--minutes' && value > 0 && value <= LONGEST_MINUTES) minutes = value;
    else if (words[at] === '--seed' && Number.isInteger(value) && value >= 0 && value < 2 ** 32) seed = value;
    else {
      return `${usage}\n--minutes: above 0, at most ${LONGEST_MINUTES}; --seed: a whole number from 0 to 2^32 - 1`;
    }
  }
  return { minutes, seed };
}
