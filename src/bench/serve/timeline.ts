// What happened when: requests at once and output over the run.

import { outputTokensOf } from './measure.ts';
import type { RequestRecord } from './request-record.ts';

type TimePoint = readonly [seconds: number, value: number];

/** From the first request sent to the last one ended. */
interface Window {
  readonly fromMs: number;
  readonly toMs: number;
}

export function windowOf(records: readonly RequestRecord[]): Window {
  if (records.length === 0) return { fromMs: 0, toMs: 0 };
  return {
    fromMs: records.reduce((least, { sentMs }) => Math.min(least, sentMs), Number.POSITIVE_INFINITY),
    toMs: records.reduce((most, { endMs }) => Math.max(most, endMs), 0),
  };
}

/** Every change of the number of requests under way. One that ends as another starts does not add to it. */
export function concurrencyOverTime(records: readonly RequestRecord[]): TimePoint[] {
  const changes = records
    .flatMap(({ sentMs, endMs }) => [[sentMs, 1] as const, [endMs, -1] as const])
    .sort(([leftMs, left], [rightMs, right]) => leftMs - rightMs || left - right);
  let running = 0;
  return changes.map(([ms, change]) => {
    running += change;
    return [ms / 1000, running];
  });
}

export function peakConcurrency(records: readonly RequestRecord[]): number {
  return concurrencyOverTime(records).reduce((most, [, running]) => Math.max(most, running), 0);
}

/** The highest value in each of equal parts of the window, so that a peak is always seen. */
export function highestOverTime(
  changes: readonly TimePoint[],
  { fromMs, toMs }: Window,
  parts: number,
): TimePoint[] {
  const stepSeconds = (toMs - fromMs) / 1000 / parts;
  let value = 0;
  let next = 0;
  return Array.from({ length: parts + 1 }, (_, part) => {
    const startSeconds = fromMs / 1000 + part * stepSeconds;
    let highest = value;
    for (let change = changes[next]; change !== undefined; change = changes[++next]) {
      if (change[0] >= startSeconds + stepSeconds && part < parts) break;
      value = change[1];
      highest = Math.max(highest, value);
    }
    return [startSeconds, part === parts ? value : highest];
  });
}

/**
 * Output tokens a second in equal parts of the window, each at the middle of its part. A request's tokens are spread
 * evenly over its chunks, since nobody tells how many a chunk holds.
 */
export function outputOverTime(
  records: readonly RequestRecord[],
  { fromMs, toMs }: Window,
  stepMs: number,
): TimePoint[] {
  const count = Math.max(1, Math.ceil((toMs - fromMs) / stepMs - 1e-9));
  const tokens = new Float64Array(count);
  for (const record of records) {
    const tokensPerChunk = record.chunkMs.length === 0 ? 0 : outputTokensOf(record) / record.chunkMs.length;
    for (const ms of record.chunkMs) {
      const part = Math.min(count - 1, Math.max(0, Math.floor((ms - fromMs) / stepMs)));
      tokens[part] = (tokens[part] as number) + tokensPerChunk;
    }
  }
  return Array.from(tokens, (sum, part) => {
    const startMs = fromMs + part * stepMs;
    const widthMs = Math.min(stepMs, toMs - startMs);
    return [(startMs + widthMs / 2) / 1000, widthMs > 0 ? (sum / widthMs) * 1000 : 0];
  });
}
