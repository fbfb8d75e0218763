// Text of a given number of tokens for an unknown tokenizer: common words, and the tokens of a word and of an empty request, as
// the server itself counts them.

import type { RandomLoad, Uniforms } from './load-plan.ts';

/** Short and frequent, so that most vocabularies hold each of them whole. */
export const words: readonly string[] = (
  'the of and to in is it that was for on are with as his they be at one have this from or had by hot but some what ' +
  'there we can out other were all your when up use word how said an each she which do their time if will way about ' +
  'many then them would write like so these her long make thing see him two has look more day could go come did my ' +
  'sound no most number who over know water than call first people may down side been now find any new work part ' +
  'take get place made live where after back little only round man year came show every good me give our under name'
).split(' ');

export interface Calibration {
  readonly tokensPerWord: number;
  /** What the chat template and the like add. */
  readonly extraTokens: number;
  /** Otherwise the usual figures for English. */
  readonly isMeasured: boolean;
}

export const usualCalibration: Calibration = { tokensPerWord: 1.3, extraTokens: 0, isMeasured: false };

const SHORT_WORDS = 16;

/** Two texts to count: the longer one adds every word once, so that the difference is the mean of all words. */
export function calibrationTexts(): readonly [short: string, long: string] {
  const short = words.slice(0, SHORT_WORDS);
  return [short.join(' '), [...short, ...words].join(' ')];
}

/** Undefined where the counts make no sense, such as no more tokens for more words. */
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

/** The shared prefix, where there is one, then at least one word of its own. */
export function promptText(
  { index, promptTokens, prefix }: PromptShape,
  prefixTokens: number,
  { tokensPerWord, extraTokens }: Calibration,
  random: RandomLoad,
): string {
  const own = Math.max(1, Math.round((promptTokens - extraTokens) / tokensPerWord));
  const shared = Math.max(1, Math.round(prefixTokens / tokensPerWord));
  const parts = prefix === undefined ? [] : sampleWords(random.prefixText(prefix), shared);
  return [...parts, ...sampleWords(random.ownText(index), own)].join(' ');
}

function sampleWords(uniform: Uniforms, count: number): string[] {
  return Array.from({ length: count }, (_, n) => words[Math.floor(uniform(n) * words.length)] as string);
}
