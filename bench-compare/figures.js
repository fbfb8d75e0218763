// From the times of tokens to speeds: one definition for all contenders.

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
