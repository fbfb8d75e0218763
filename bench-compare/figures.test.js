import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commonStart, decodeSpeed, median, prefillSpeed } from './figures.js';

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
