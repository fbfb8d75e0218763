// Runs lines taken from the queue; each is answered, or given back to be run again.

import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import type { BatchRecord, LineAnswer, LineQueue, TakenLine } from '../../store/batch-record.ts';
import type { Caller } from '../request/auth.ts';
import type { Endpoint, LineOutcome, LineServer } from './line-server.ts';
import { answeredLine, failedLine, lineId } from './write-out.ts';

/** A line that meets a server fault is run this often; the fault is often gone by then. */
const MOST_FAULTS = 3;
/** A line during which servers die again and again is given up. */
const MOST_ATTEMPTS = 10;
/** The longest pause, even where a limit asks for more: the limit may be lifted meanwhile. */
const LONGEST_PAUSE_MS = 30_000;
const FAULT_PAUSE_MS = 1000;
const STORE_RETRY_MS = 500;

interface LineRunnerOptions {
  readonly queue: LineQueue;
  readonly owner: string;
  readonly leaseMs: number;
  readonly server: Pick<LineServer, 'run'>;
  readonly log: Pick<FastifyBaseLogger, 'error' | 'warn'>;
  readonly onEnd: () => void;
}

interface Running {
  readonly line: TakenLine;
  readonly abort: AbortController;
  readonly ended: Promise<void>;
}

export class LineRunner {
  readonly #options: LineRunnerOptions;
  readonly #running = new Map<string, Running>();
  /** Until when each batch pauses, on the monotonic clock. */
  readonly #pausedMs = new Map<string, number>();
  #renewedMs = Number.NEGATIVE_INFINITY;

  constructor(options: LineRunnerOptions) {
    this.#options = options;
  }

  get count(): number {
    return this.#running.size;
  }

  countByBatch(): ReadonlyMap<string, number> {
    const counts = new Map<string, number>();
    for (const { line } of this.#running.values()) {
      counts.set(line.batchId, (counts.get(line.batchId) ?? 0) + 1);
    }
    return counts;
  }

  /** Takes at most `most` lines of the batch and runs them; returns how many there were. */
  async begin(batch: BatchRecord, caller: Caller, most: number): Promise<number> {
    const { queue, owner, leaseMs } = this.#options;
    if ((this.#pausedMs.get(batch.id) ?? 0) > performance.now()) return 0;
    this.#pausedMs.delete(batch.id);
    const nowMs = await queue.nowMs();
    const lines = await queue.take(batch.id, most, { owner, nowMs, untilMs: nowMs + leaseMs });
    for (const line of lines) this.#start(batch, caller, line);
    return lines.length;
  }

  abortUnless(isOpen: (batchId: string) => boolean): void {
    for (const { line, abort } of this.#running.values()) if (!isOpen(line.batchId)) abort.abort();
    for (const batchId of this.#pausedMs.keys()) if (!isOpen(batchId)) this.#pausedMs.delete(batchId);
  }

  /** Renews the leases of running lines, at most once in this time. */
  async renew(everyMs: number): Promise<void> {
    const { queue, owner, leaseMs } = this.#options;
    if (performance.now() - this.#renewedMs < everyMs) return;
    this.#renewedMs = performance.now();
    const lines = [...this.#running.values()].map(({ line }) => line);
    if (lines.length === 0) return;
    const nowMs = await queue.nowMs();
    await queue.renew(lines, { owner, nowMs, untilMs: nowMs + leaseMs });
  }

  async settled(): Promise<void> {
    await Promise.all([...this.#running.values()].map(({ ended }) => ended));
  }

  #start(batch: BatchRecord, caller: Caller, line: TakenLine): void {
    const id = `${line.batchId}:${line.line}`;
    const { log, onEnd } = this.#options;
    // Its lease ran out while it ran, and it was taken again.
    if (this.#running.has(id)) return;
    const abort = new AbortController();
    const ended = this.#run(id, batch, caller, line, abort.signal)
      .catch((error: unknown) => log.error({ err: error, line: id }, 'a line of a batch failed'))
      .finally(() => {
        this.#running.delete(id);
        onEnd();
      });
    this.#running.set(id, { line, abort, ended });
  }

  async #run(
    id: string,
    { endpoint, keyId }: BatchRecord,
    caller: Caller,
    line: TakenLine,
    signal: AbortSignal,
  ): Promise<void> {
    const { queue, owner, server } = this.#options;
    if (line.attempts > MOST_ATTEMPTS) return this.#keep(line, keyId, abandoned(line), signal);
    const request = { id, endpoint: endpoint as Endpoint, body: line.body, caller, signal };
    const outcome = await server.run(request);
    const giveBack = (afterMs: number, tried: boolean) =>
      this.#stored(signal, async () =>
        queue.giveBack(line, owner, afterMs === 0 ? 0 : (await queue.nowMs()) + afterMs, tried),
      );
    switch (outcome.kind) {
      case 'aborted':
        return giveBack(0, false);
      case 'later': {
        const pauseMs = Math.min(outcome.afterMs, LONGEST_PAUSE_MS);
        this.#pausedMs.set(line.batchId, performance.now() + pauseMs);
        return giveBack(pauseMs, false);
      }
      case 'answer':
        if (outcome.status >= 500 && line.attempts < MOST_FAULTS) {
          return giveBack(FAULT_PAUSE_MS * line.attempts, true);
        }
        return this.#keep(line, keyId, answerOf(id, line, outcome), signal);
    }
  }

  async #keep(line: TakenLine, keyId: string, answer: LineAnswer, signal: AbortSignal): Promise<void> {
    await this.#stored(signal, async () => {
      const { queue } = this.#options;
      await queue.answer(line, keyId, answer, await queue.nowMs());
    });
  }

  /** Retries the write for as long as the lease lasts; a line whose answer is lost is run again by the next server. */
  async #stored(signal: AbortSignal, write: () => Promise<void>): Promise<void> {
    const { leaseMs, log } = this.#options;
    const endMs = performance.now() + leaseMs;
    for (;;) {
      try {
        return await write();
      } catch (error) {
        if (signal.aborted || performance.now() >= endMs) throw error;
        log.warn({ err: error }, 'the answer of a line cannot be written yet');
        await sleep(STORE_RETRY_MS);
      }
    }
  }
}

function answerOf(
  requestId: string,
  { batchId, line, customId }: TakenLine,
  { status, body, usage }: LineOutcome & { kind: 'answer' },
): LineAnswer {
  const id = lineId(batchId, line);
  return {
    text: answeredLine({ id, customId, status, requestId, body }),
    succeeded: status < 400,
    usage,
  };
}

function abandoned({ batchId, line, customId, attempts }: TakenLine): LineAnswer {
  const message = `the server ended ${attempts - 1} times while it ran this request; it is not tried again`;
  const text = failedLine(lineId(batchId, line), customId, 'request_abandoned', message);
  return { text, succeeded: false, usage: undefined };
}
