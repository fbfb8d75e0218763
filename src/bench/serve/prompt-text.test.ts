import { describe, expect, it } from 'vitest';
import { randomLoad } from './load-plan.ts';
import { calibrate, calibrationTexts, promptText, words } from './prompt-text.ts';

const random = randomLoad(3);
const lengthOf = (text: string) => text.split(' ').length;

describe('calibration', () => {
  it('finds how many tokens a word and an empty request have', () => {
    const [short, long] = calibrationTexts();
    const count = (text: string) => 11 + 1.5 * lengthOf(text);
    expect(calibrate(count(short), count(long))).toEqual({
      tokensPerWord: 1.5,
      extraTokens: 11,
      isMeasured: true,
    });
  });

  it('adds every word once in the longer text, so that the difference is their mean', () => {
    const [short, long] = calibrationTexts();
    expect(long.startsWith(`${short} `)).toBe(true);
    expect(long.slice(short.length + 1).split(' ')).toEqual(words);
    expect(new Set(words).size).toBe(words.length);
  });

  it('gives nothing where more words have no more tokens', () => {
    expect(calibrate(9, 9)).toBeUndefined();
  });
});

describe('the text of a prompt', () => {
  const calibration = { tokensPerWord: 2, extraTokens: 10, isMeasured: true };
  const text = (index: number, promptTokens: number, prefix?: number, prefixTokens = 0) =>
    promptText({ index, promptTokens, prefix }, prefixTokens, calibration, random);

  it('has as many words as its tokens ask for, at least one', () => {
    expect(lengthOf(text(1, 210))).toBe(100);
    expect(lengthOf(text(1, 3))).toBe(1);
    expect(lengthOf(text(1, 210, 0, 60))).toBe(130);
  });

  it('is the same for the same number, and starts differently for another', () => {
    expect(text(1, 200)).toBe(text(1, 200));
    const starts = Array.from({ length: 200 }, (_, n) => text(n, 200).split(' ').slice(0, 8).join(' '));
    expect(new Set(starts).size).toBe(200);
  });

  it('shares exactly its beginning with others of the same prefix', () => {
    const [one, other] = [text(1, 100, 0, 40), text(2, 100, 0, 40)].map((whole) => whole.split(' '));
    expect(one?.slice(0, 20)).toEqual(other?.slice(0, 20));
    expect(one?.slice(20)).not.toEqual(other?.slice(20));
    expect(text(1, 100, 1, 40).split(' ').slice(0, 20)).not.toEqual(one?.slice(0, 20));
  });
});
