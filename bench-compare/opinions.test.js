import assert from 'node:assert/strict';
import { test } from 'node:test';
import { difference, logProbabilities, opinionOf } from './opinions.js';

const row = (...logits) => Float32Array.from(logits);

test('an opinion goes on with what is likeliest, and keeps the logits after every token', async () => {
  const asked = [];
  const opinion = await opinionOf([7, 5], 3, async (tokens, start) => {
    asked.push([start, ...tokens]);
    // The next token is always one more.
    return tokens.map((token) => new Float32Array(12).fill(1, token + 1, token + 2));
  });
  assert.deepEqual(opinion.tokens, [7, 5, 6, 7, 8]);
  assert.equal(opinion.logits.length, 4);
  assert.deepEqual(asked, [
    [0, 7, 5],
    [2, 6],
    [3, 7],
  ]);
});

test('log-probabilities are those of a whole, however large the logits', () => {
  const total = logProbabilities(row(1000, 999, 0)).reduce((sum, value) => sum + Math.exp(value), 0);
  assert.ok(Math.abs(total - 1) < 1e-12);
});

test('logits that differ by a constant are the same opinion', () => {
  const one = { tokens: [1, 0], logits: [row(3, 2, 1)] };
  const other = { tokens: [1, 0], logits: [row(13, 12, 11)] };
  assert.ok(difference(one, other) < 1e-6);
});

test('only what followed the same tokens is compared', () => {
  const one = { tokens: [1, 0, 0], logits: [row(2, 1.9, 0), row(5, 0, 0)] };
  const other = { tokens: [1, 1, 0], logits: [row(1.9, 2, 0), row(0, 5, 0)] };
  assert.ok(difference(one, other) < 0.11);
});

test('tokens that both find all but impossible do not count, numbers that are none do', () => {
  const prompt = { tokens: [1, 0] };
  assert.equal(difference({ ...prompt, logits: [row(0, -50)] }, { ...prompt, logits: [row(0, -60)] }), 0);
  assert.equal(
    difference({ ...prompt, logits: [row(0, Number.NaN)] }, { ...prompt, logits: [row(0, 0)] }),
    Number.POSITIVE_INFINITY,
  );
});
