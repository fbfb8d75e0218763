// A process that is told to end ends what it has started first: children that are not told would go on computing for
// nobody. (For the same reason `npm run compare` replaces its shell, which passes no signal on.)

import { constants } from 'node:os';

const SIGNALS = /** @type {const} */ (['SIGHUP', 'SIGINT', 'SIGTERM']);

/**
 * @param {() => void} endChildren
 * @returns {() => void} lets signals do what they did before
 */
export function beforeEnd(endChildren) {
  /** @param {NodeJS.Signals} signal */
  const end = (signal) => {
    endChildren();
    process.exit(128 + constants.signals[signal]);
  };
  for (const signal of SIGNALS) process.once(signal, end);
  return () => {
    for (const signal of SIGNALS) process.off(signal, end);
  };
}
