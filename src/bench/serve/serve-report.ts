// Everything that may be asked of a run against a server.

import { type Distribution, distributionOf } from '../statistics.ts';
import { formatLengths, type KeyShare, type LengthDistribution } from './load-plan.ts';
import type { Calibration } from './prompt-text.ts';
import { type GoodputLimits, measureRequest, type RequestRecord } from './request-record.ts';
import { type Summary, summarize, windowOf } from './summary.ts';
import type { Endpoint } from './target.ts';

export interface ServeSettings {
  /** As `baseUrlOf` gives it. */
  readonly baseUrl: string;
  /** The first one of the server where undefined. */
  readonly model: string | undefined;
  readonly endpoint: Endpoint;
  /** At least one. */
  readonly keys: readonly KeyShare[];
  readonly requests: number;
  readonly warmup: number;
  readonly requestsPerSecond: number | undefined;
  /** At once, at most; undefined for no limit. */
  readonly concurrency: number | undefined;
  readonly promptTokens: LengthDistribution;
  readonly outputTokens: LengthDistribution;
  readonly prefixes: number;
  readonly prefixTokens: number;
  readonly temperature: number;
  readonly seed: number;
  readonly ignoreEos: boolean;
  readonly timeoutMs: number;
  readonly goodput: GoodputLimits | undefined;
}

interface KeySummary extends Summary {
  readonly name: string;
  readonly weight: number;
}

export interface ServeReport {
  readonly url: string;
  readonly model: string;
  readonly startedAt: string;
  /** As asked, without the keys' secrets. */
  readonly load: LoadDescription;
  readonly calibration: Calibration;
  readonly summary: Summary;
  /** Of each key, where there are several. */
  readonly keys: readonly KeySummary[];
  readonly client: {
    /** How much of the time this program itself was busy; near 1 it measures itself. */
    readonly busyShare: number;
    /** How late requests were sent that had a time to be sent at. */
    readonly sendDelayMs: Distribution | undefined;
  };
  readonly records: readonly RequestRecord[];
}

type LoadDescription = Omit<ServeSettings, 'baseUrl' | 'model' | 'keys' | 'promptTokens' | 'outputTokens'> & {
  readonly promptTokens: string;
  readonly outputTokens: string;
  readonly keys: readonly { readonly name: string; readonly weight: number }[];
};

interface RunFacts {
  readonly settings: ServeSettings;
  readonly model: string;
  readonly startedAt: Date;
  readonly calibration: Calibration;
  readonly clientBusyShare: number;
  readonly records: readonly RequestRecord[];
}

export function serveReport(facts: RunFacts): ServeReport {
  const { settings, records } = facts;
  const { fromMs, toMs } = windowOf(records);
  const options = { durationMs: toMs - fromMs, goodput: settings.goodput };
  const ofKey = (name: string) => records.filter(({ keyName }) => keyName === name);
  return {
    url: settings.baseUrl,
    model: facts.model,
    startedAt: facts.startedAt.toISOString(),
    load: describeLoad(settings),
    calibration: facts.calibration,
    summary: summarize(records, options),
    keys:
      settings.keys.length < 2
        ? []
        : settings.keys.map(({ name, weight }) => ({ name, weight, ...summarize(ofKey(name), options) })),
    client: {
      busyShare: facts.clientBusyShare,
      sendDelayMs:
        settings.requestsPerSecond === undefined
          ? undefined
          : distributionOf(records.map(({ sentMs, arrivalMs }) => Math.max(0, sentMs - arrivalMs))),
    },
    records,
  };
}

function describeLoad(settings: ServeSettings): LoadDescription {
  const { baseUrl: _url, model: _model, keys, ...rest } = settings;
  return {
    ...rest,
    promptTokens: formatLengths(settings.promptTokens),
    outputTokens: formatLengths(settings.outputTokens),
    keys: keys.map(({ name, weight }) => ({ name, weight })),
  };
}

/** One line, without the single requests. */
export function summaryJson(report: ServeReport): string {
  const { summary, keys, records: _, ...about } = report;
  return JSON.stringify({ bench: 'serve', ...about, ...summary, keys }, shorten);
}

/** The same with every request; times count from the start of the run. */
export function fullJson(report: ServeReport): string {
  const { summary, keys, records, ...about } = report;
  const requests = records.map((record) => {
    const { ttftMs, tpotMs, e2elMs } = measureRequest(record);
    return { ...record, ttftMs, tpotMs, e2elMs };
  });
  return JSON.stringify({ bench: 'serve', ...about, ...summary, keys, requests }, shorten);
}

/** Six digits are more than anything here is measured to; of times to the microsecond. */
function shorten(_key: string, value: unknown): unknown {
  if (typeof value !== 'number' || Number.isInteger(value)) return value;
  return Math.abs(value) >= 1 ? Math.round(value * 1000) / 1000 : Number(value.toPrecision(6));
}
