import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compare, divergence, perplexity, quantile, summarize } from './distributions.js';
import { logProbabilities } from './opinions.js';

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
