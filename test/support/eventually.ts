// Asserts again and again, until it holds. Only what never comes true takes as long as the limit, on however busy a machine.

import { vi } from 'vitest';

const LIMIT_MS = 60_000;

/** Gives what the check gives in the end; where the limit is reached, its last failure is the test's. */
export function eventually<Result>(check: () => Result | Promise<Result>, interval = 50): Promise<Result> {
  return vi.waitFor(check, { timeout: LIMIT_MS, interval });
}
