import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type SamplingRequest, type Spelling, validateSampling } from './parameters.ts';
import { SamplerState } from './sampler-state.ts';

/** Texts are written as their tokens; others have none. */
const tokensOf = (text: string) => (/^\d/.test(text) ? [text.split(' ').map(Number)] : []);
const spelling: Spelling = { wordTokens: tokensOf, breakerTokens: tokensOf };

function parametersOf(request: SamplingRequest) {
  const context = { vocabSize: 100, freshSeed: { low: 0, high: 0 }, spelling };
  const validation = validateSampling(request, context);
  if (!validation.ok) throw new Error(`${validation.parameter} ${validation.problem}`);
  return validation.parameters;
}

// What transformers' NoBadWordsLogitsProcessor forbids: tools/samplers/hugging_face_vectors.py.
const vectors: {
  readonly badWords: readonly (readonly number[])[];
  readonly cases: readonly { readonly answer: readonly number[]; readonly forbidden: readonly number[] }[];
} = JSON.parse(readFileSync(new URL('./hugging-face.vectors.json', import.meta.url), 'utf8'));

describe('bad words', () => {
  const badWords = vectors.badWords.map((tokens) => tokens.join(' '));
  const forbidden = (
    prompt: readonly number[],
    answer: readonly number[],
    further: readonly number[] = [],
  ) => {
    const state = new SamplerState(parametersOf({ badWords }), Int32Array.from(prompt), answer);
    return state.row(Int32Array.from([...prompt, ...answer]), further).forbidden;
  };

  it.each(vectors.cases)('end as those of Hugging Face after $answer', ({ answer, forbidden: expected }) => {
    expect([...new Set(forbidden([1], answer))].sort((a, b) => a - b)).toEqual(expected);
    // The same where the last tokens are a draft.
    for (let own = 0; own <= answer.length; own++) {
      expect(forbidden([1], answer.slice(0, own), answer.slice(own))).toEqual(forbidden([1], answer));
    }
  });

  it('begin in the answer: what the prompt ends with is no part of them', () => {
    expect(forbidden([9, 3], [4])).toEqual([7, 6]);
  });
});

describe('penalties of the last tokens', () => {
  it('count prompt and answer alike, with and without drafts', () => {
    const tokens = fc.array(fc.nat(5), { minLength: 1, maxLength: 30 });
    fc.assert(
      fc.property(tokens, tokens, fc.integer({ min: -1, max: 40 }), (before, further, repeatLastN) => {
        const parameters = parametersOf({ frequencyPenalty: 1, repeatLastN });
        const state = new SamplerState(parameters, Int32Array.from(before), []);
        const { counts } = state.row(Int32Array.from(before), further);
        const all = [...before, ...further];
        const last = repeatLastN === -1 ? all : all.slice(all.length - Math.min(all.length, repeatLastN));
        const expected = new Map<number, number>();
        for (const token of last) expected.set(token, (expected.get(token) ?? 0) + 1);
        const ids = Array.from(counts?.ids ?? []);
        expect(new Map(ids.map((id, at) => [id, counts?.generated[at]]))).toEqual(expected);
      }),
      { seed: 1 },
    );
  });
});

describe('DRY', () => {
  it('takes most off the token that goes on with the longest repetition', () => {
    const prompt = Int32Array.from([1, 2, 3, 4, 9, 2, 3, 7, 1, 2, 3]);
    const state = new SamplerState(parametersOf({ dryMultiplier: 1, dryBase: 2 }), prompt, []);
    expect(state.row(prompt, []).dry).toEqual({ tokens: [7, 4], penalties: [1, 2] });
    // One more token that was drafted.
    expect(state.row(prompt, [4]).dry).toEqual({ tokens: [9], penalties: [4] });
  });

  it('stays finite, however long the repetition', () => {
    const prompt = new Int32Array(3000).fill(5);
    const { dry } = new SamplerState(parametersOf({ dryMultiplier: 9, dryBase: 50 }), prompt, []).row(
      prompt,
      [],
    );
    expect(dry?.tokens).toEqual([5]);
    expect(dry?.penalties.every(Number.isFinite)).toBe(true);
  });
});

describe('sequence breakers', () => {
  /** As defined: the longest of those that come last in a text ends what a repetition reaches back to. */
  function lengthSince(history: readonly number[], breakers: readonly (readonly number[])[]): number {
    for (let start = history.length - 1; start >= 0; start--) {
      const found = breakers.filter((tokens) => tokens.every((token, i) => token === history[start + i]));
      if (found.length > 0) return history.length - start - Math.max(...found.map(({ length }) => length));
    }
    return history.length;
  }

  it('end repetitions where the last of them ends, however many begin alike', () => {
    const tokens = (maxLength: number) => fc.array(fc.nat(2), { minLength: 1, maxLength });
    fc.assert(
      fc.property(tokens(12), fc.array(tokens(4), { maxLength: 12 }), (text, breakers) => {
        // Token 50 comes after a repetition of the whole text, so its penalty tells how far that reaches.
        const history = [...text, 50, 51, ...text];
        const parameters = parametersOf({
          dryMultiplier: 1,
          dryBase: 2,
          dryAllowedLength: 0,
          drySequenceBreakers: breakers.map((one) => one.join(' ')),
        });
        const { dry } = new SamplerState(parameters, Int32Array.from(history), []).row(
          Int32Array.from(history),
          [],
        );
        const penalty = dry?.penalties[dry.tokens.indexOf(50)];
        expect(penalty).toBe(2 ** Math.min(text.length, lengthSince(history, breakers)));
      }),
    );
  });
});
