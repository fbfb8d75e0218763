// The command line: how long, by which seed, and of what alone.

import { allKinds } from './schedule.ts';

export interface ChaosOptions {
  readonly minutes: number;
  readonly seed: number;
  /** Kinds of disturbances and stops; everything where undefined. */
  readonly only?: ReadonlySet<string>;
}

const usage = 'usage: npm run chaos -- [--minutes N] [--seed S] [--only "twin,SIGTERM"]';
const LONGEST_MINUTES = 24 * 60;

/** What is wrong with them, as a text, where they cannot be used. */
export function parseOptions(words: readonly string[], anySeed: number): ChaosOptions | string {
  let minutes = 1;
  let seed = anySeed;
  let only: ReadonlySet<string> | undefined;
  for (let at = 0; at < words.length; at += 2) {
    const value = Number(words[at + 1] || Number.NaN);
    if (words[at] === '--minutes' && value > 0 && value <= LONGEST_MINUTES) minutes = value;
    else if (words[at] === '--seed' && Number.isInteger(value) && value >= 0 && value < 2 ** 32) seed = value;
    else if (words[at] === '--only' && areKinds(words[at + 1])) only = kindsIn(words[at + 1]);
    else {
      return `${usage}\n--minutes: above 0, at most ${LONGEST_MINUTES}; --seed: a whole number from 0 to 2^32 - 1; --only: of ${[...allKinds].join(', ')}`;
    }
  }
  return { minutes, seed, ...(only === undefined ? {} : { only }) };
}

function kindsIn(text = ''): ReadonlySet<string> {
  return new Set(text.split(',').map((kind) => kind.trim()));
}

function areKinds(text: string | undefined): boolean {
  return [...kindsIn(text)].every((kind) => allKinds.has(kind));
}
