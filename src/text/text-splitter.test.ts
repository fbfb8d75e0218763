import fc from 'fast-check';
import { expect, it } from 'vitest';
import { fromOniguruma } from './oniguruma/oniguruma.ts';
import { splitBy, splitThousands } from './text-splitter.ts';

const byExpression = splitBy(fromOniguruma(String.raw`\d{1,3}(?=(?:\d{3})*\b)`), 'Isolated');

it('groups digits from the right', () => {
  expect(splitThousands('1234567 and 89')).toEqual(['1', '234', '567', ' and ', '89']);
});

it('leaves a number alone that a letter follows', () => {
  expect(splitThousands('1234km')).toEqual(['1234km']);
});

it('cuts any text as the expression does', () => {
  const characters = fc.constantFrom('1', '2', '٣', '𝟘', ' ', 'a', '中', '𝕳', '_', '́', '.', '😀', '\n');
  fc.assert(
    fc.property(fc.array(characters, { maxLength: 24 }), (parts) => {
      const text = parts.join('');
      expect(splitThousands(text)).toEqual(byExpression(text));
    }),
    { numRuns: 2000 },
  );
});

it('cuts a million digits, whatever follows them', () => {
  const number = '7'.repeat(1_000_000);
  expect(splitThousands(number)).toHaveLength(333_334);
  expect(splitThousands(`${number}x`)).toHaveLength(1);
});
