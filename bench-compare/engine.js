// What every contender looks like to a trial, as types alone: it loads the model once, runs one round of answers
// after the other, and says when each token came.

/**
 * @typedef {object} Setup
 * @property {string} modelPath a GGUF file
 * @property {number} threads
 * @property {number} streams answers that are computed at once
 * @property {number} contextTokens of the longest prompt and its answer together
 * @property {string} python the interpreter that has the Python peers
 */

/**
 * @typedef {object} Round
 * @property {readonly (readonly number[])[]} prompts token ids, a prompt for each stream
 * @property {number} answerTokens of each stream; end tokens do not end it
 */

/**
 * @typedef {object} Timing
 * @property {number} startedMs when the prompts were handed over
 * @property {number[][]} tokenMs when each token was there, by stream, on the same clock
 * @property {number[]} tokens the first stream's answer
 */

/**
 * @typedef {object} Outcome
 * @property {string} version
 * @property {string} build what it was compiled for or runs on
 * @property {Timing[]} timings one for each round
 * @property {number} [childCpuSeconds] of a process of its own
 */

/**
 * @typedef {object} Engine
 * @property {string} label
 * @property {(python: string) => string | undefined} missing why it cannot run here
 * @property {(setup: Setup, rounds: readonly Round[]) => Promise<Outcome>} run always greedy
 */

/** Tokens that one forward pass takes at most, the same for all. */
export const STEP_TOKENS = 512;
