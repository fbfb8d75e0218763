// Which worker has an answer, for gateways at which its client may come back. Kept in the message system beside the request, for
// as long; what is not found there is computed again.

import { createHash } from 'node:crypto';
import type { Clock } from '../../runtime/clock.ts';
import { within } from '../../runtime/timers.ts';
import type { KeptValues } from '../bucket.ts';

const FIND_MS = 1000;

export class AnswerDirectory {
  readonly #kept: Pick<KeptValues, 'values'>;
  readonly #clock: Clock;

  constructor(kept: Pick<KeptValues, 'values'>, clock: Clock) {
    this.#kept = kept;
    this.#clock = clock;
  }

  /** Nobody waits for it. */
  note(id: string, worker: string): void {
    void this.#kept.values.put(keyOf(id), Buffer.from(worker)).catch(() => {});
  }

  /** Never fails. */
  async find(id: string): Promise<string | undefined> {
    const entry = await within(this.#kept.values.get(keyOf(id)), FIND_MS, this.#clock).catch(() => null);
    return entry === null || entry.operation !== 'PUT' ? undefined : Buffer.from(entry.value).toString();
  }
}

/** A hash, since parts of ids come from clients. */
function keyOf(id: string): string {
  return `worker.${createHash('sha256').update(id).digest('hex')}`;
}
