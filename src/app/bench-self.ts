// The benchmark of `chairlift bench serve` for a server that is asked to measure itself. The load is made in the server's
// own process: what that takes is part of what is measured.

import { cumulativePlots, scatterPlots, timelinePlots } from '../bench/serve/report-page.ts';
import { failureTable, headlines, latencyTable, notesOn, overviewRows } from '../bench/serve/report-rows.ts';
import { LiveLoad } from '../bench/serve/run-load.ts';
import { benchServer } from '../bench/serve/serve-bench.ts';
import type { ServeReport, ServeSettings } from '../bench/serve/serve-report.ts';
import { baseUrlOf } from '../bench/serve/target.ts';
import type { BenchRun } from '../server/context.ts';
import type { BenchRequest, BenchResult } from '../server/live/live-event.ts';

const TELL_EVERY_MS = 250;
const TIMEOUT_MS = 120_000;
const MOST_WARM_UP = 4;

/** `url`: where the server listens. */
export async function benchSelf(
  url: string,
  order: BenchRequest,
  { key, signal, onProgress }: BenchRun,
): Promise<BenchResult> {
  const live = new LiveLoad();
  const tell = () => {
    const { phase, total, done, running, errors, chunks } = live;
    onProgress({ phase, total, done, running, errors, chunks });
  };
  const timer = setInterval(tell, TELL_EVERY_MS);
  try {
    return resultOf(await benchServer(settingsOf(order, url, key), { signal, live }));
  } finally {
    clearInterval(timer);
    tell();
  }
}

function settingsOf(order: BenchRequest, url: string, secret: BenchRun['key']): ServeSettings {
  const { model, streams, requests, promptTokens, answerTokens } = order;
  return {
    baseUrl: baseUrlOf(url) as string,
    model,
    endpoint: 'completions',
    keys: [{ name: 'own', secret, weight: 1 }],
    requests,
    warmup: Math.min(streams, MOST_WARM_UP),
    requestsPerSecond: undefined,
    concurrency: streams,
    promptTokens: { kind: 'fixed', tokens: promptTokens },
    outputTokens: { kind: 'fixed', tokens: answerTokens },
    prefixes: 1,
    prefixTokens: 0,
    temperature: 0,
    // Another load each time: a prompt that was asked before would be found in the prefix cache.
    seed: Date.now() % 2 ** 31,
    ignoreEos: true,
    timeoutMs: TIMEOUT_MS,
    goodput: undefined,
  };
}

function resultOf(report: ServeReport): BenchResult {
  const failures = failureTable(report.summary);
  return {
    headlines: headlines(report),
    rows: overviewRows(report),
    latency: latencyTable(report.summary),
    ...(failures === undefined ? {} : { failures }),
    notes: notesOn(report),
    plots: [...cumulativePlots(report), ...timelinePlots(report), ...scatterPlots(report)],
  };
}
