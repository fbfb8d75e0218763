// The figures of a run, or of one key's part in it. Only complete answers count towards latency and throughput.

import { type Distribution, distributionOf } from '../statistics.ts';
import {
  type FailureKind,
  type GoodputLimits,
  isComplete,
  keepsLimits,
  measureRequest,
  outputTokensOf,
  type RequestMeasures,
  type RequestRecord,
} from './request-record.ts';

export interface FailureCount {
  readonly failure: FailureKind;
  readonly status: number | undefined;
  readonly count: number;
  /** In the words of the first. */
  readonly message: string;
  /** Where the server asked to come back later. */
  readonly retryAfterSeconds: { readonly min: number; readonly max: number } | undefined;
}

export interface Summary {
  readonly sent: number;
  readonly completed: number;
  /** Refused ones among them. */
  readonly failed: number;
  readonly rateLimited: number;
  /** Cut off by the end of the run. */
  readonly cutOff: number;
  readonly failures: readonly FailureCount[];
  readonly durationSeconds: number;
  readonly requestsPerSecond: number;
  readonly outputTokensPerSecond: number;
  /** Prompt and output together. */
  readonly totalTokensPerSecond: number;
  readonly peakConcurrency: number;
  /** Undefined where the server counts none. */
  readonly promptTokens: number | undefined;
  readonly outputTokens: number;
  /** Whether the server counted the output, or chunks stand for tokens. */
  readonly outputTokensFrom: 'usage' | 'chunks' | 'usage and chunks';
  /** Undefined where the server does not tell. */
  readonly cachedTokens: number | undefined;
  /** Of the prompt tokens. */
  readonly cachedShare: number | undefined;
  readonly ttftMs: Distribution | undefined;
  readonly tpotMs: Distribution | undefined;
  readonly itlMs: Distribution | undefined;
  readonly e2elMs: Distribution | undefined;
  readonly goodput: Goodput | undefined;
}

interface Goodput {
  readonly limitsMs: GoodputLimits;
  readonly requests: number;
  readonly requestsPerSecond: number;
  /** Of all that were sent. */
  readonly share: number;
}

interface SummaryOptions {
  /** Of the whole run, also for a part of it. */
  readonly durationMs: number;
  readonly goodput?: GoodputLimits | undefined;
}

export function summarize(records: readonly RequestRecord[], options: SummaryOptions): Summary {
  const complete = records.filter(isComplete);
  const measures = complete.map(measureRequest);
  const seconds = options.durationMs / 1000;
  const perSecond = (count: number) => (seconds > 0 ? count / seconds : 0);
  const outputTokens = sum(measures.map((one) => one.outputTokens));
  const prompts = promptCounts(complete);
  const failed = records.flatMap(({ outcome }) => (outcome.kind === 'failed' ? [outcome] : []));
  return {
    sent: records.length,
    completed: complete.length,
    failed: failed.length,
    rateLimited: failed.filter(({ failure }) => failure === 'rate-limited').length,
    cutOff: records.length - complete.length - failed.length,
    failures: countFailures(records),
    durationSeconds: seconds,
    requestsPerSecond: perSecond(complete.length),
    outputTokensPerSecond: perSecond(outputTokens),
    totalTokensPerSecond: perSecond(outputTokens + (prompts.promptTokens ?? 0)),
    peakConcurrency: peakConcurrency(records),
    ...prompts,
    outputTokens,
    outputTokensFrom: sourceOf(complete),
    ttftMs: distributionOf(measures.flatMap(({ ttftMs }) => ttftMs ?? [])),
    tpotMs: distributionOf(measures.flatMap(({ tpotMs }) => tpotMs ?? [])),
    itlMs: distributionOf(measures.flatMap(({ gapsMs }) => gapsMs)),
    e2elMs: distributionOf(measures.map(({ e2elMs }) => e2elMs)),
    goodput: options.goodput && goodputOf(measures, records.length, options.goodput, perSecond),
  };
}

function goodputOf(
  measures: readonly RequestMeasures[],
  sent: number,
  limitsMs: GoodputLimits,
  perSecond: (count: number) => number,
): Goodput {
  const requests = measures.filter((one) => keepsLimits(one, limitsMs)).length;
  return {
    limitsMs,
    requests,
    requestsPerSecond: perSecond(requests),
    share: sent === 0 ? 0 : requests / sent,
  };
}

/** Known only where the server counts; a share of cached tokens only where it tells those. */
function promptCounts(
  complete: readonly RequestRecord[],
): Pick<Summary, 'promptTokens' | 'cachedTokens' | 'cachedShare'> {
  const usages = complete.flatMap(({ usage }) => usage ?? []);
  const telling = usages.filter(({ cachedTokens }) => cachedTokens !== undefined);
  const cachedTokens = telling.length === 0 ? undefined : sum(telling.map((one) => one.cachedTokens ?? 0));
  const ofTelling = sum(telling.map(({ promptTokens }) => promptTokens));
  return {
    promptTokens: usages.length === 0 ? undefined : sum(usages.map(({ promptTokens }) => promptTokens)),
    cachedTokens,
    cachedShare: cachedTokens === undefined || ofTelling === 0 ? undefined : cachedTokens / ofTelling,
  };
}

function sourceOf(complete: readonly RequestRecord[]): Summary['outputTokensFrom'] {
  const counted = complete.filter(({ usage }) => usage !== undefined).length;
  if (counted === complete.length) return 'usage';
  return counted === 0 ? 'chunks' : 'usage and chunks';
}

function countFailures(records: readonly RequestRecord[]): FailureCount[] {
  const counts = new Map<string, FailureCount>();
  for (const { outcome } of records) {
    if (outcome.kind !== 'failed') continue;
    const { failure, status, message, retryAfterSeconds: seconds } = outcome;
    const name = `${failure} ${status}`;
    const before = counts.get(name);
    const range = before?.retryAfterSeconds;
    counts.set(name, {
      failure,
      status,
      count: (before?.count ?? 0) + 1,
      message: before?.message ?? message,
      retryAfterSeconds:
        seconds === undefined
          ? range
          : { min: Math.min(range?.min ?? seconds, seconds), max: Math.max(range?.max ?? seconds, seconds) },
    });
  }
  return [...counts.values()].sort((left, right) => right.count - left.count);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

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
