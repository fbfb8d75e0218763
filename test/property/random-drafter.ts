// Drafters of every character, for answers of the backend of hashes: those that know much, those that know nothing, and
// those that mean no good.

import type { Drafter } from '../../src/engine/speculation/drafter.ts';
import { PromptLookupDrafter } from '../../src/engine/speculation/prompt-lookup-drafter.ts';
import { answerAlone, END_TOKEN, VOCABULARY } from './hash-backend.ts';

export type Character = 'silent' | 'text' | 'seer' | 'liar' | 'vandal';

/** What is no token, or ends an answer. */
const RUBBISH = [-1, VOCABULARY, END_TOKEN, Number.NaN, 0.5, 2 ** 40, Number.POSITIVE_INFINITY];

/** `share`: how many of a seer's draft tokens are right. */
export function randomDrafter(
  character: Character,
  share: number,
  prompt: Int32Array,
  choice: number,
  tokens: Int32Array,
  right: readonly number[] = answerAlone(prompt, choice, 200, true).tokens,
): Drafter {
  const answer = [...prompt, ...right];
  let length = tokens.length;
  let random = length;
  const next = () => {
    random = (Math.imul(random, 1_664_525) + 1_013_904_223) | 0;
    return (random >>> 8) / 2 ** 24;
  };
  let extended = 0;
  const truth = () => answer[length + extended] ?? 1;
  const characters: Record<Exclude<Character, 'text'>, () => number | undefined> = {
    silent: () => undefined,
    seer: () => (next() < share ? truth() : 1 + extended),
    liar: () => 1 + Math.floor(150 * next()),
    vandal: () => (next() < 0.7 ? truth() : RUBBISH[Math.floor(RUBBISH.length * next())]),
  };
  if (character === 'text') return new PromptLookupDrafter(tokens);
  return {
    propose: () => {
      const token = characters[character]();
      return token === undefined ? undefined : { token, source: 'prediction', matchLength: 1 };
    },
    extend: () => {
      extended += 1;
    },
    rollBack: () => {
      extended = 0;
    },
    accept: () => {
      length += 1;
    },
  };
}
