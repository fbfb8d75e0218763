import assert from 'node:assert/strict';
import { test } from 'node:test';
import { figuresOf, overall, partedAt } from './edit-figures.js';

const round = (answerMs, count, draftTokens, disturbed = false) => ({
  disturbed,
  cpuSeconds: 0,
  tokens: Array.from({ length: count }, (_, index) => index),
  promptMs: 10,
  answerMs,
  ...(draftTokens && { draftTokens }),
});

test('a speed counts the tokens after the first, in the median round', () => {
  const draftTokens = { accepted: 3, rejected: 1 };
  const figures = figuresOf([round(900, 11), round(100, 11), round(200, 11, draftTokens)]);
  assert.equal(figures.tokensPerSecond, 50);
  assert.equal(figures.milliseconds, 200);
  assert.deepEqual(figures.draftTokens, draftTokens);
});

test('what was disturbed counts where there is nothing better', () => {
  const busy = round(10, 11, undefined, true);
  assert.equal(figuresOf([busy, round(200, 11)]).tokensPerSecond, 50);
  assert.equal(figuresOf([busy, busy]).tokensPerSecond, 1000);
});

test('over all answers the long ones weigh more', () => {
  const long = figuresOf([round(1000, 101)]);
  const short = figuresOf([round(1000, 11)]);
  assert.equal(overall([long, short]), 55);
});

test('an answer of one token has no speed, and costs the others none', () => {
  const lone = figuresOf([round(0, 1)]);
  assert.equal(lone.tokensPerSecond, 0);
  assert.equal(overall([lone, figuresOf([round(100, 11)])]), 100);
});

test('answers that part are told from those that are the same', () => {
  assert.equal(partedAt([1, 2, 3], [1, 2, 3]), undefined);
  assert.equal(partedAt([1, 2, 3], [1, 5, 3]), 1);
  assert.equal(partedAt([1, 2], [1, 2, 3]), 2);
});
