import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  compare,
  difference,
  divergence,
  logProbabilities,
  opinionOf,
  perplexity,
  quantile,
  summarize,
} from './distributions.js';

const logs = (...probabilities) => Float64Array.from(probabilities, Math.log);
const near = (value, expected) => assert.ok(Math.abs(value - expected) < 1e-6, `${value} is not ${expected}`);

test('the divergence of two distributions is what information theory says, and has a direction', () => {
  near(divergence(logs(0.5, 0.5), logs(0.25, 0.75)), 0.5 * Math.log(2) + 0.5 * Math.log(2 / 3));
  near(divergence(logs(0.25, 0.75), logs(0.5, 0.5)), 0.25 * Math.log(0.5) + 0.75 * Math.log(1.5));
});

test('a distribution does not diverge from itself, and no rounding makes less than nothing of it', () => {
  const one = logs(0.1, 0.2, 0.7);
  assert.equal(divergence(one, one), 0);
  assert.ok(
    divergence(
      one,
      one.map((value) => value + 1e-15),
    ) >= 0,
  );
});

test('a token that never comes costs nothing, one that was held impossible costs everything', () => {
  near(divergence(logs(1, 0), logs(0.5, 0.5)), Math.log(2));
  assert.equal(divergence(logs(0.5, 0.5), logs(1, 0)), Number.POSITIVE_INFINITY);
});

test('an even guess among n tokens has a perplexity of n', () => {
  const { surprise } = compare(logs(...Array(7).fill(1 / 7)), new Float32Array(7), 3);
  near(perplexity([surprise, surprise]), 7);
});

test('a constant more in all logits changes nothing', () => {
  const truth = logProbabilities(Float32Array.of(1, 2, 3));
  const { divergence: apart, sameLikeliest } = compare(truth, Float32Array.of(11, 12, 13), 0);
  near(apart, 0);
  assert.equal(sameLikeliest, true);
});

test('a quantile is a value that occurred', () => {
  const values = Array.from({ length: 200 }, (_, index) => 200 - index);
  assert.equal(quantile(values, 0.99), 198);
  assert.equal(quantile([5], 0.99), 5);
});

test('a summary counts every position once', () => {
  const summary = summarize([
    { surprise: 0, divergence: 0.25, sameLikeliest: true },
    { surprise: Math.log(4), divergence: 0.75, sameLikeliest: false },
  ]);
  assert.equal(summary.positions, 2);
  near(summary.perplexity, 2);
  near(summary.divergence, 0.5);
  near(summary.divergenceError, 0.25 / Math.SQRT2);
  assert.equal(summary.divergence99, 0.75);
  assert.equal(summary.sameLikeliest, 0.5);
});

const row = (...logits) => Float32Array.from(logits);

test('an opinion goes on with what is likeliest, and keeps the logits after every token', async () => {
  const asked = [];
  const opinion = await opinionOf([7, 5], 3, async (tokens, start) => {
    asked.push([start, ...tokens]);
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
