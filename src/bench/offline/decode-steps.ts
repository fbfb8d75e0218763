// Sums up steps in which a number of streams decode one token each: how fast they were and where their time went.

import { percentile, sort } from '../serve/statistics.ts';
import type { MeasuredRun, MeasuredStep } from './measured-engine.ts';

export interface DecodeSpeed {
  readonly steps: number;
  readonly tokensPerSecond: number;
  readonly stepMs: { readonly median: number; readonly best: number; readonly worst: number };
  readonly shares: TimeShares;
}

/** Of the time of all steps; together 1. */
interface TimeShares {
  /** The forward pass. */
  readonly compute: number;
  readonly sample: number;
  /** Planning, packing the batch, and handing tokens out. */
  readonly schedule: number;
  /** Between steps: the event loop and this measurement. */
  readonly rest: number;
}

/** Steps of the run in which exactly these streams decode. The first one also takes the requests in: it is left out. */
export function decodeSteps({ steps }: MeasuredRun, streams: number): MeasuredStep[] {
  return steps.slice(1).filter(({ tokens, sequences }) => tokens === streams && sequences === streams);
}

export function decodeSpeed(steps: readonly MeasuredStep[], streams: number): DecodeSpeed {
  const total = (value: (step: MeasuredStep) => number) => steps.reduce((sum, step) => sum + value(step), 0);
  const wallMs = total((step) => step.wallMs);
  const compute = total(({ times }) => times.computeMs) / wallMs;
  const sample = total(({ times }) => times.sampleMs) / wallMs;
  const schedule = total(({ times }) => times.scheduleMs + times.emitMs) / wallMs;
  const sorted = sort(steps.map((step) => step.wallMs));
  return {
    steps: steps.length,
    tokensPerSecond: (1000 * streams * steps.length) / wallMs,
    stepMs: { median: percentile(sorted, 50), best: percentile(sorted, 0), worst: percentile(sorted, 100) },
    shares: { compute, sample, schedule, rest: 1 - compute - sample - schedule },
  };
}
