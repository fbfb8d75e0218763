// From the times of tokens to speeds: one definition for all contenders.

import { DISTURBED } from './harness.js';

/** @typedef {import('./engine.js').Timing} Timing */

/**
 * Prompt tokens per second, until the last stream has its first token.
 * @param {Timing} timing
 * @param {number} promptTokens of all streams together
 */
export function prefillSpeed({ startedMs, tokenMs }, promptTokens) {
  const firstMs = tokenMs.map(([first]) => first ?? Number.NaN);
  return (promptTokens * 1000) / (Math.max(...firstMs) - startedMs);
}

/**
 * Tokens per second of all streams together while all of them decode: from when the last one has its first token
 * until the first one ends. Each stream counts the steps between its own tokens, so that it does not matter in which
 * order the tokens of one step arrive.
 * @param {Timing} timing
 */
export function decodeSpeed({ tokenMs }) {
  const fromMs = Math.max(...tokenMs.map((times) => times[0] ?? Number.NaN));
  const toMs = Math.min(...tokenMs.map((times) => times.at(-1) ?? Number.NaN));
  let speed = 0;
  for (const times of tokenMs) {
    const inside = times.filter((time) => time >= fromMs && time <= toMs);
    const spanMs = (inside.at(-1) ?? 0) - (inside[0] ?? 0);
    if (!(spanMs > 0)) throw new Error('the streams did not decode at the same time; ask for longer answers');
    speed += ((inside.length - 1) * 1000) / spanMs;
  }
  return speed;
}

/** @param {readonly number[]} values */
export function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/**
 * How many tokens two answers have in common before they part.
 * @param {readonly number[]} one
 * @param {readonly number[]} other
 */
export function commonStart(one, other) {
  const parting = one.findIndex((token, index) => token !== other[index]);
  return parting === -1 ? one.length : parting;
}

/**
 * @typedef {object} Figures of one contender's answers to one prompt
 * @property {number} tokens of the answer
 * @property {number} milliseconds from its first token to its last, median of the rounds
 * @property {number} tokensPerSecond
 * @property {number} promptMs until the first token, median of the rounds
 * @property {number} quietRounds
 * @property {{ accepted: number, rejected: number }} [draftTokens] in the last round
 */

/** @typedef {import('./edit-contender.js').Answer & { disturbed: boolean }} Round */

/**
 * Rounds during which others used the machine count only where there are no better ones.
 *
 * @param {readonly Round[]} all
 * @returns {Figures}
 */
export function figuresOf(all) {
  const quiet = all.filter(({ disturbed }) => !disturbed);
  const rounds = quiet.length > 0 ? quiet : all;
  const last = rounds[rounds.length - 1];
  const milliseconds = median(rounds.map(({ answerMs }) => answerMs));
  const tokens = last.tokens.length;
  return {
    tokens,
    milliseconds,
    tokensPerSecond: speed(tokens - 1, milliseconds),
    promptMs: median(rounds.map(({ promptMs }) => promptMs)),
    quietRounds: quiet.length,
    ...(last.draftTokens === undefined ? {} : { draftTokens: last.draftTokens }),
  };
}

/**
 * Tokens a second over all answers: what somebody sees who waits for all of them.
 *
 * @param {readonly Figures[]} answers
 */
export function overall(answers) {
  const sum = (of) => answers.reduce((total, answer) => total + of(answer), 0);
  return speed(
    sum(({ tokens }) => tokens - 1),
    sum(({ milliseconds }) => milliseconds),
  );
}

/** An answer without a second token has no speed. */
function speed(tokens, milliseconds) {
  return tokens > 0 && milliseconds > 0 ? (1000 * tokens) / milliseconds : 0;
}

/**
 * Drafts must not change an answer: where two of them part, if they do.
 *
 * @param {readonly number[]} plain
 * @param {readonly number[]} drafted
 */
export function partedAt(plain, drafted) {
  const same = commonStart(plain, drafted);
  return same === plain.length && same === drafted.length ? undefined : same;
}

/**
 * Of the rounds that nobody disturbed, or of all where there are none; undefined where none has a value.
 * @template {{ readonly othersShare?: number | undefined }} Round
 * @param {readonly Round[]} rounds
 * @param {(round: Round) => number | undefined} of
 */
export function undisturbedMedian(rounds, of) {
  const still = rounds.filter(({ othersShare }) => (othersShare ?? 0) <= DISTURBED);
  const values = (still.length > 0 ? still : rounds).map(of).filter((value) => value !== undefined);
  return values.length === 0 ? undefined : median(values);
}
