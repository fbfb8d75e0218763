// What is said of options that cannot be met, for all programs here.

/**
 * @param {string} line
 * @returns {never}
 */
export function give(line) {
  process.stderr.write(`${line}\n`);
  process.exit(1);
}

/**
 * The number that an option gives.
 *
 * @param {string} name
 * @param {string | undefined} text
 * @param {number} least
 */
export function count(name, text, least = 1) {
  const value = Number(text);
  return Number.isInteger(value) && value >= least
    ? value
    : give(`--${name}: give a whole number from ${least} on`);
}
