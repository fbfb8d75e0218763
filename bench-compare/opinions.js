// How far apart two engines are that were asked for the same tokens: an opinion is the logits after every token, and the
// tokens themselves, of which the first so many were given and the rest are each engine's own.

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
  // Not a number is no small difference.
  return a.reduce((largest, value, token) => {
    if (value < least && b[token] < least) return largest;
    const apart = Math.abs(value - b[token]);
    return Number.isNaN(apart) ? Number.POSITIVE_INFINITY : Math.max(largest, apart);
  }, 0);
}
