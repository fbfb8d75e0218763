import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commonStart, decodeSpeed, figuresOf, median, overall, partedAt, prefillSpeed } from './figures.js';

const timing = (...tokenMs) => ({ startedMs: 1000, tokenMs, tokens: [] });

test('one stream decodes its tokens after the first in the time between first and last', () => {
  assert.equal(decodeSpeed(timing([2000, 2100, 2200, 2400])), 3 / 0.4);
});

test('only the time in which all streams decode counts', () => {
  const early = [100, 200, 300, 400, 410, 420, 430, 440, 450, 460];
  const late = [400, 410, 420, 430, 440, 450, 460, 560, 660, 760];
  assert.equal(Math.round(decodeSpeed(timing(early, late))), 200);
});

test('the order of arrival within a step does not change the speed', () => {
  const step = (index) => 100 * index;
  const streams = [0, 1, 2, 3].map((stream) => [1, 2, 3, 4, 5].map((index) => step(index) + stream));
  assert.equal(Math.round(decodeSpeed(timing(...streams))), 40);
});

test('streams that never decode together have no speed', () => {
  assert.throws(() => decodeSpeed(timing([100, 200], [300, 400])), /longer answers/);
});

test('the prompt takes until the last first token', () => {
  assert.equal(prefillSpeed(timing([1200, 9000], [1500, 9000]), 256), 512);
});

test('medians and common starts', () => {
  assert.equal(median([9, 1, 5]), 5);
  assert.equal(median([1, 2, 4, 100]), 3);
  assert.equal(commonStart([1, 2, 3], [1, 2, 4]), 2);
  assert.equal(commonStart([1, 2], [1, 2, 4]), 2);
  assert.equal(commonStart([7], [8]), 0);
});

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
