// From answers that contenders gave to the same prompts to speeds.

import { commonStart, median } from './figures.js';

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
