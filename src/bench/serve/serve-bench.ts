// A whole run against a server: finds its model, learns how it counts tokens, warms it up, sends the load, and puts
// the figures together.

import { setMaxListeners } from 'node:events';
import type { LiveLoad, Phase } from './live-load.ts';
import { type PlannedRequest, planLoad } from './load-plan.ts';
import {
  type Calibration,
  calibrate,
  calibrationTexts,
  promptText,
  usualCalibration,
} from './prompt-text.ts';
import { type RandomLoad, randomLoad } from './random-load.ts';
import { type BodyOptions, requestBody, streamedBody } from './request-body.ts';
import type { RequestRecord } from './request-record.ts';
import { runLoad } from './run-load.ts';
import { type ServeReport, serveReport } from './serve-report.ts';
import type { ServeSettings } from './serve-settings.ts';
import { streamRequest } from './stream-request.ts';
import { callPlain, firstModel, makeAgent, pathOf, type Target } from './target.ts';

export interface ServeBenchRun {
  /** Ends the run; what has been sent by then is reported. */
  readonly signal: AbortSignal;
  readonly live: LiveLoad;
}

const WARM_UP_CONCURRENCY = 8;
const nowMs = () => performance.now();

/** Throws a TargetError where the server cannot be used at all, and the signal's reason where it ends before the load. */
export async function benchServer(settings: ServeSettings, run: ServeBenchRun): Promise<ServeReport> {
  setMaxListeners(0, run.signal);
  const { baseUrl, endpoint } = settings;
  const startedAt = new Date();
  run.live.begin('calibrate', 0, nowMs());
  const model = settings.model ?? (await firstModel(baseUrl, plainCall(settings, run)));
  const target = { baseUrl, model, endpoint, agent: makeAgent(baseUrl) };
  try {
    const calibration = await calibrateWith(target, settings, run);
    const random = randomLoad(settings.seed);
    const plan = planLoad(settings, random);
    const load = { target, settings, calibration, random, run };
    const warmUp = Math.min(settings.concurrency ?? WARM_UP_CONCURRENCY, WARM_UP_CONCURRENCY);
    await sendAll(load, 'warm-up', plan.warmup, warmUp);
    const idle = performance.eventLoopUtilization();
    const records = await sendAll(load, 'load', plan.requests, settings.concurrency);
    const clientBusyShare = performance.eventLoopUtilization(idle).utilization;
    return serveReport({ settings, model, startedAt, calibration, clientBusyShare, records });
  } finally {
    target.agent.destroy();
  }
}

function plainCall({ keys, timeoutMs }: ServeSettings, { signal }: ServeBenchRun) {
  return { secret: keys[0]?.secret, timeoutMs, signal };
}

/** Has the server count two texts. One that does not count gets the usual figure. */
async function calibrateWith(
  target: Target,
  settings: ServeSettings,
  run: ServeBenchRun,
): Promise<Calibration> {
  const counts: number[] = [];
  for (const text of calibrationTexts()) {
    const body = requestBody(bodyOptions(target, settings, 0), text, 1);
    const call = { ...plainCall(settings, run), body };
    const answer = (await callPlain(target.baseUrl, pathOf(target.endpoint), call)) as {
      usage?: { prompt_tokens?: unknown };
    };
    const count = answer.usage?.prompt_tokens;
    if (typeof count === 'number') counts.push(count);
  }
  const [short, long] = counts;
  if (short === undefined || long === undefined) return usualCalibration;
  return calibrate(short, long) ?? usualCalibration;
}

function bodyOptions({ model, endpoint }: Target, settings: ServeSettings, index: number): BodyOptions {
  const { temperature, ignoreEos, seed } = settings;
  return { model, endpoint, temperature, ignoreEos, seed: seed + index };
}

interface Load {
  readonly target: Target;
  readonly settings: ServeSettings;
  readonly calibration: Calibration;
  readonly random: RandomLoad;
  readonly run: ServeBenchRun;
}

function sendAll(
  { target, settings, calibration, random, run }: Load,
  phase: Phase,
  requests: readonly PlannedRequest[],
  concurrency: number | undefined,
): Promise<RequestRecord[]> {
  const { signal, live } = run;
  live.begin(phase, requests.length, nowMs());
  return runLoad(requests, {
    concurrency,
    signal,
    nowMs,
    send: (request) => {
      const text = promptText(request, settings.prefixTokens, calibration, random);
      const body = streamedBody(bodyOptions(target, settings, request.index), text, request.outputTokens);
      const { secret } = request.key;
      const onChunk = () => live.chunkCame();
      return streamRequest(target, { body, secret, timeoutMs: settings.timeoutMs, signal, nowMs, onChunk });
    },
    onStart: () => live.requestStarted(),
    onEnd: (record) => live.requestEnded(record),
  });
}
