// Drafters of every character, for answers of the backend of hashes: those that know much, those that know nothing, and
// those that mean no good.

import type { Draft, Drafter } from '../../src/engine/speculation/drafter.ts';
import { TextDrafter } from '../../src/engine/speculation/text-drafter.ts';
import { answerAlone, END_TOKEN, VOCABULARY } from './hash-backend.ts';

export type Character = 'silent' | 'text' | 'seer' | 'liar' | 'vandal';

/** What is no token, or ends an answer, or comes in masses. */
const RUBBISH = [-1, VOCABULARY, END_TOKEN, Number.NaN, 0.5, 2 ** 40, Number.POSITIVE_INFINITY];

/** `share`: how many of a seer's guesses are right. */
export function randomDrafter(
  character: Character,
  share: number,
  prompt: Int32Array,
  choice: number,
  tokens: Int32Array,
): Drafter {
  const answer = [...prompt, ...answerAlone(prompt, choice, 200, true).tokens];
  let length = tokens.length;
  let random = length;
  const next = () => {
    random = (Math.imul(random, 1_664_525) + 1_013_904_223) | 0;
    return (random >>> 8) / 2 ** 24;
  };
  const list = (count: number, token: (i: number) => number): Draft => ({
    tokens: Array.from({ length: count }, (_, i) => token(i)),
    kind: 'expected',
  });
  const characters: Record<Exclude<Character, 'text'>, (most: number) => Draft> = {
    silent: () => list(0, () => 0),
    seer: (most) => list(most, (i) => (next() < share ? (answer[length + i] ?? 1) : 1 + i)),
    liar: (most) => list(most, () => 1 + Math.floor(150 * next())),
    vandal: (most) =>
      list(2 * most + 40, (i) =>
        next() < 0.7 ? (answer[length + i] ?? 1) : (RUBBISH[Math.floor(RUBBISH.length * next())] as number),
      ),
  };
  if (character === 'text') return new TextDrafter(tokens);
  return {
    guess: characters[character],
    accept: () => {
      length += 1;
    },
  };
}
