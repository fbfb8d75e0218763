import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Tokenizer } from '../text/tokenizer.ts';
import { ChoiceText, type TokenDetail } from './answer-parts.ts';

// Three letters and the bytes of one character of two bytes, so that characters span tokens.
const bytes = [[0x61], [0x62], [0x61, 0x62, 0x63], [0xc3], [0xbc], [0x20, 0x61]];
const tokenizer = {
  stripsLeadingSpace: false,
  isSpecial: () => false,
  tokenBytes: (id: number) => Uint8Array.from(bytes[id] ?? []),
} as unknown as Tokenizer;

interface Shown {
  readonly text: string;
  readonly details: readonly TokenDetail[];
  readonly stopped: boolean;
}

function show(tokens: readonly number[], stops: readonly string[], minTokens = 0): Shown {
  const choice = new ChoiceText(tokenizer, { stops, minTokens });
  let text = '';
  const details: TokenDetail[] = [];
  for (const token of tokens) {
    const piece = choice.push(token, { logprob: -token, top: [] });
    text += piece.text;
    details.push(...piece.details);
    if (piece.stopped) return { text, details, stopped: true };
  }
  const rest = choice.end();
  return { text: text + rest.text, details: [...details, ...rest.details], stopped: rest.stopped };
}

const whole = (tokens: readonly number[]) =>
  new TextDecoder().decode(Uint8Array.from(tokens.flatMap((token) => bytes[token] ?? [])));

describe('the text of an answer', () => {
  const tokens = fc.array(fc.nat(bytes.length - 1), { maxLength: 12 });

  it('is what all its tokens spell, with every token told once and in order', () => {
    fc.assert(
      fc.property(tokens, (ids) => {
        const shown = show(ids, []);
        expect(shown.text).toBe(whole(ids));
        expect(shown.details.map(({ token }) => token)).toEqual(ids);
      }),
    );
  });

  it('ends before a stop string, and tells only tokens that begin in it', () => {
    const stop = fc.array(fc.constantFrom('a', 'b', 'ü', ' '), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(tokens, stop, (ids, parts) => {
        const text = whole(ids);
        const at = text.indexOf(parts.join(''));
        const shown = show(ids, [parts.join('')]);
        expect(shown.stopped).toBe(at !== -1);
        expect(shown.text).toBe(at === -1 ? text : text.slice(0, at));
        const begins = shown.details.filter(({ offset }) => offset < shown.text.length);
        if (shown.stopped) expect(begins).toEqual(shown.details);
        else expect(shown.details.map(({ token }) => token)).toEqual(ids);
      }),
      { numRuns: 1000 },
    );
  });

  it('looks for stop strings only behind the least number of tokens', () => {
    expect(show([0, 1, 0, 1], ['b'], 2)).toMatchObject({ text: 'aba', stopped: true });
    expect(show([0, 1], ['b'], 2)).toMatchObject({ text: 'ab', stopped: false });
  });

  it('holds the details of a token back with its text', () => {
    const choice = new ChoiceText(tokenizer, { stops: ['abc'], minTokens: 0 });
    expect(choice.push(0, { logprob: -1, top: [] })).toEqual({ text: '', details: [], stopped: false });
    const { text, details } = choice.push(0, { logprob: -2, top: [] });
    expect(text).toBe('a');
    expect(details.map(({ logprob, offset }) => [logprob, offset])).toEqual([[-1, 0]]);
  });
});
