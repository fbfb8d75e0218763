// Where a run stands, for whoever wants to look: counted as it goes, read at any time.

import type { RequestRecord } from './request-record.ts';

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
