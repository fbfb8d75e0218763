import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TokenCounts } from './token-counts.ts';

function asMap(counts: TokenCounts): Map<number, number> {
  return new Map(Array.from(counts.ids, (id, place) => [id, counts.generated[place] as number]));
}

describe('TokenCounts', () => {
  it('lists prompt and answer once each and counts the answer only', () => {
    expect(asMap(new TokenCounts([5, 5, 6], [6, 7, 7]))).toEqual(
      new Map([
        [5, 0],
        [6, 1],
        [7, 2],
      ]),
    );
  });

  it('is the same after a resume as after counting token by token', () => {
    const tokens = fc.array(fc.nat(300), { maxLength: 600 });
    fc.assert(
      fc.property(tokens, tokens, (prompt, answer) => {
        const grown = new TokenCounts(prompt);
        for (const token of answer) grown.addGenerated(token);
        const rebuilt = new TokenCounts(prompt, answer);
        expect(grown.ids).toEqual(rebuilt.ids);
        expect(grown.generated).toEqual(rebuilt.generated);
        const expected = new Map([...prompt, ...answer].map((token) => [token, 0]));
        for (const token of answer) expected.set(token, (expected.get(token) ?? 0) + 1);
        expect(asMap(grown)).toEqual(expected);
      }),
      { seed: 1 },
    );
  });
});
