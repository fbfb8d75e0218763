import { expect, it } from 'vitest';
import { BLOCK_TOKENS } from '../../compute/backend.ts';
import { randomPrompts } from './random-prompts.ts';

it('prompts hold tokens of the vocabulary, and no two begin with the same block', () => {
  const nextPrompt = randomPrompts(300);
  const prompts = Array.from({ length: 500 }, () => nextPrompt(64));
  const tokens = prompts.flatMap((prompt) => [...prompt]);
  expect(Math.min(...tokens)).toBe(0);
  expect(Math.max(...tokens)).toBe(299);
  const beginnings = prompts.map((prompt) => prompt.slice(0, BLOCK_TOKENS).join());
  expect(new Set(beginnings).size).toBe(500);
});

it('prompts are the same every time', () => {
  expect(randomPrompts(1000)(50)).toEqual(randomPrompts(1000)(50));
});
