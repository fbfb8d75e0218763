// How far apart the next-token distributions of two engines are, and the tokens that each finds likeliest.

import { commonStart } from './figures.js';

/**
 * @typedef {object} Opinion
 * @property {readonly number[]} tokens the prompt's and what was likeliest after it, each time
 * @property {readonly Float32Array[]} logits after each token but the last
 */

/** Tokens that both engines find less likely than this say little: their logits are what rounding left. */
const LEAST_PROBABILITY = 1e-4;

/**
 * Feeds the prompt, then what is likeliest, again and again.
 *
 * @param {readonly number[]} prompt
 * @param {number} answerTokens
 * @param {(tokens: readonly number[], start: number) => Promise<Float32Array[]>} logitsAfter each of the tokens, which
 * stand behind those of earlier calls
 * @returns {Promise<Opinion>}
 */
export async function opinionOf(prompt, answerTokens, logitsAfter) {
  const logits = await logitsAfter(prompt, 0);
  const tokens = [...prompt, likeliest(logits[logits.length - 1])];
  while (tokens.length < prompt.length + answerTokens) {
    logits.push(...(await logitsAfter(tokens.slice(-1), tokens.length - 1)));
    tokens.push(likeliest(logits[logits.length - 1]));
  }
  return { tokens, logits };
}

/** @param {Float32Array | Float64Array} logits or log-probabilities */
export function likeliest(logits) {
  let best = 0;
  for (let token = 1; token < logits.length; token++) if (logits[token] > logits[best]) best = token;
  return best;
}

/** Plain loops: vocabularies are large. @param {Float32Array} logits */
export function logProbabilities(logits) {
  const most = logits[likeliest(logits)];
  let sum = 0;
  for (let token = 0; token < logits.length; token++) sum += Math.exp(logits[token] - most);
  const shift = most + Math.log(sum);
  const logs = new Float64Array(logits.length);
  for (let token = 0; token < logits.length; token++) logs[token] = logits[token] - shift;
  return logs;
}

/**
 * The largest difference of log-probabilities, wherever both engines had seen the same tokens.
 *
 * @param {Opinion} one
 * @param {Opinion} other
 */
export function difference(one, other) {
  const seenAlike = commonStart(one.tokens, other.tokens);
  const rows = one.logits.slice(0, seenAlike);
  return Math.max(...rows.map((row, index) => rowDifference(row, other.logits[index])));
}

function rowDifference(one, other) {
  const [a, b] = [logProbabilities(one), logProbabilities(other)];
  const least = Math.log(LEAST_PROBABILITY);
  // NaN is no small difference.
  return a.reduce((largest, value, token) => {
    if (value < least && b[token] < least) return largest;
    const apart = Math.abs(value - b[token]);
    return Number.isNaN(apart) ? Number.POSITIVE_INFINITY : Math.max(largest, apart);
  }, 0);
}

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
  // Rounding alone may make it negative.
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
