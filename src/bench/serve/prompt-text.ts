// Text of a wanted number of tokens for a tokenizer that nobody here knows: common words, and how many tokens such a
// word and an empty request have, as the server itself counts them.

import type { Draw, RandomLoad } from './load-plan.ts';

/** Short and frequent, so that most vocabularies hold each of them whole. */
export const words: readonly string[] = (
  'the of and to in is it that was for on are with as his they be at one have this from or had by hot but some what ' +
  'there we can out other were all your when up use word how said an each she which do their time if will way about ' +
  'many then them would write like so these her long make thing see him two has look more day could go come did my ' +
  'sound no most number who over know water than call first people may down side been now find any new work part ' +
  'take get place made live where after back little only round man year came show every good me give our under name'
).split(' ');

/** How a prompt's tokens follow from its words. */
export interface Calibration {
  readonly tokensPerWord: number;
  /** What the chat template and the like add. */
  readonly extraTokens: number;
  /** Whether the server has counted; else it is the usual figure for English. */
  readonly isMeasured: boolean;
}

export const usualCalibration: Calibration = { tokensPerWord: 1.3, extraTokens: 0, isMeasured: false };

const SHORT_WORDS = 16;

/**
 * Two texts to have counted: the longer one adds every word once, so that the difference is the mean of all words.
 */
export function calibrationTexts(): readonly [short: string, long: string] {
  const short = words.slice(0, SHORT_WORDS);
  return [short.join(' '), [...short, ...words].join(' ')];
}

/** From the tokens of the two texts. Undefined where they make no sense, such as no more tokens for more words. */
export function calibrate(shortTokens: number, longTokens: number): Calibration | undefined {
  const tokensPerWord = (longTokens - shortTokens) / words.length;
  if (!(tokensPerWord > 0)) return undefined;
  const extraTokens = Math.max(0, shortTokens - SHORT_WORDS * tokensPerWord);
  return { tokensPerWord, extraTokens, isMeasured: true };
}

interface PromptShape {
  readonly index: number;
  readonly promptTokens: number;
  readonly prefix: number | undefined;
}

/** The shared beginning, where there is one, then words of its own, at least one. */
export function promptText(
  { index, promptTokens, prefix }: PromptShape,
  prefixTokens: number,
  { tokensPerWord, extraTokens }: Calibration,
  random: RandomLoad,
): string {
  const own = Math.max(1, Math.round((promptTokens - extraTokens) / tokensPerWord));
  const shared = Math.max(1, Math.round(prefixTokens / tokensPerWord));
  const parts = prefix === undefined ? [] : drawWords(random.prefixText(prefix), shared);
  return [...parts, ...drawWords(random.ownText(index), own)].join(' ');
}

function drawWords(draw: Draw, count: number): string[] {
  return Array.from({ length: count }, (_, n) => words[Math.floor(draw(n) * words.length)] as string);
}
