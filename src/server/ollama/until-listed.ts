// The pool looks for models now and then. Who is told that one came or went can rely on it.

import { setTimeout as sleep } from 'node:timers/promises';
import type { ModelPool } from '../../pool/model-pool.ts';

const LOOK_MS = 100;
const LONGEST_LOOK_MS = 5000;

/** Resolves when the pool knows the model at this path, or no longer does; or after a few seconds. */
export async function untilListed(
  pool: ModelPool,
  path: string,
  isThere: boolean,
  signal?: AbortSignal,
): Promise<void> {
  const endMs = performance.now() + LONGEST_LOOK_MS;
  while (performance.now() < endMs && pool.list().some((one) => one.path === path) !== isThere) {
    await sleep(LOOK_MS, undefined, signal === undefined ? {} : { signal });
  }
}
