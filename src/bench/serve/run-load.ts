// Sends a planned load: each request when its time has come and a place is free. Knows no network; how a request is
// sent is given.

import { setTimeout as sleep } from 'node:timers/promises';
import type { PlannedRequest } from './load-plan.ts';
import type { RequestRecord, StreamedAnswer } from './request-record.ts';

interface LoadOptions {
  /** Requests at once; undefined for no limit. */
  readonly concurrency: number | undefined;
  /** Ends the run: nothing more is sent. */
  readonly signal: AbortSignal;
  readonly nowMs: () => number;
  send(request: PlannedRequest): Promise<StreamedAnswer>;
  readonly onStart?: (request: PlannedRequest) => void;
  readonly onEnd?: (record: RequestRecord) => void;
}

/** Gives what was sent, in the order of the plan. */
export async function runLoad(
  requests: readonly PlannedRequest[],
  options: LoadOptions,
): Promise<RequestRecord[]> {
  const { concurrency = Number.POSITIVE_INFINITY, signal, nowMs } = options;
  const startMs = nowMs();
  const sent: Promise<RequestRecord>[] = [];
  let running = 0;
  let onPlaceFree: (() => void) | undefined;
  const launch = async (request: PlannedRequest): Promise<RequestRecord> => {
    options.onStart?.(request);
    const record = recordOf(request, await options.send(request), startMs);
    running--;
    onPlaceFree?.();
    options.onEnd?.(record);
    return record;
  };
  for (const request of requests) {
    await waitUntil(startMs + request.arrivalMs, nowMs, signal);
    while (running >= concurrency) {
      await new Promise<void>((resolve) => {
        onPlaceFree = resolve;
      });
    }
    if (signal.aborted) break;
    running++;
    sent.push(launch(request));
  }
  return Promise.all(sent);
}

async function waitUntil(timeMs: number, nowMs: () => number, signal: AbortSignal): Promise<void> {
  const leftMs = timeMs - nowMs();
  // An end of the run is seen by the caller.
  if (leftMs > 0) await sleep(leftMs, undefined, { signal }).catch(() => {});
}

function recordOf(request: PlannedRequest, answer: StreamedAnswer, startMs: number): RequestRecord {
  return {
    ...answer,
    sentMs: answer.sentMs - startMs,
    endMs: answer.endMs - startMs,
    chunkMs: answer.chunkMs.map((ms) => ms - startMs),
    index: request.index,
    keyName: request.key.name,
    arrivalMs: request.arrivalMs,
    wantedPromptTokens: request.promptTokens,
    wantedOutputTokens: request.outputTokens,
  };
}

export type Phase = 'calibrate' | 'warm-up' | 'load';

export class LiveLoad {
  phase: Phase = 'calibrate';
  total = 0;
  done = 0;
  running = 0;
  errors = 0;
  chunks = 0;
  startedMs = 0;

  begin(phase: Phase, total: number, nowMs: number): void {
    Object.assign(this, { phase, total, done: 0, running: 0, errors: 0, chunks: 0, startedMs: nowMs });
  }

  requestStarted(): void {
    this.running++;
  }

  chunkCame(): void {
    this.chunks++;
  }

  requestEnded({ outcome }: RequestRecord): void {
    this.running--;
    this.done++;
    if (outcome.kind === 'failed') this.errors++;
  }
}
