// How good guesses of next tokens are, and how far they are from those of another: figures over the positions of a text.

import { likeliest, logProbabilities } from './opinions.js';

/**
 * @typedef {object} Comparison of one position
 * @property {number} surprise minus the log-probability of the token that came
 * @property {number} divergence from the other's distribution, in nats
 * @property {boolean} sameLikeliest
 */

/**
 * @typedef {object} Summary
 * @property {number} positions
 * @property {number} perplexity
 * @property {number} divergence mean
 * @property {number} divergenceError standard error of that mean
 * @property {number} divergence99 what 99 of 100 positions stay below
 * @property {number} sameLikeliest share of positions
 */

/**
 * Kullback-Leibler divergence in nats: what it costs to believe `believed` where `truth` holds.
 *
 * @param {Float64Array} truth log-probabilities
 * @param {Float64Array} believed log-probabilities
 */
export function divergence(truth, believed) {
  let sum = 0;
  for (let token = 0; token < truth.length; token++) {
    const value = truth[token];
    // What never happens costs nothing.
    if (value !== Number.NEGATIVE_INFINITY) sum += Math.exp(value) * (value - believed[token]);
  }
  // Rounding alone makes it negative.
  return Math.max(0, sum);
}

/**
 * @param {Float64Array} truth log-probabilities
 * @param {Float32Array} logits
 * @param {number} next the token that came
 * @returns {Comparison}
 */
export function compare(truth, logits, next) {
  const own = logProbabilities(logits);
  return {
    surprise: -own[next],
    divergence: divergence(truth, own),
    sameLikeliest: likeliest(own) === likeliest(truth),
  };
}

/**
 * @param {readonly Comparison[]} positions
 * @returns {Summary}
 */
export function summarize(positions) {
  const divergences = positions.map((position) => position.divergence);
  const middle = mean(divergences);
  const variance = mean(divergences.map((value) => (value - middle) ** 2));
  return {
    positions: positions.length,
    perplexity: perplexity(positions.map(({ surprise }) => surprise)),
    divergence: middle,
    divergenceError: Math.sqrt(variance / positions.length),
    divergence99: quantile(divergences, 0.99),
    sameLikeliest: mean(positions.map(({ sameLikeliest }) => Number(sameLikeliest))),
  };
}

/** @param {readonly number[]} surprises */
export function perplexity(surprises) {
  return Math.exp(mean(surprises));
}

/**
 * The smallest value that so large a share does not exceed.
 *
 * @param {readonly number[]} values
 * @param {number} share
 */
export function quantile(values, share) {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)];
}

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
