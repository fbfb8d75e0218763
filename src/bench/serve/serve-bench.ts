// A whole run against a server: finds its model, learns how it counts tokens, warms it up, sends the load, and puts
// the figures together.

import { setMaxListeners } from 'node:events';
import { type PlannedRequest, planLoad, type RandomLoad, randomLoad } from './load-plan.ts';
import {
  type Calibration,
  calibrate,
  calibrationTexts,
  promptText,
  usualCalibration,
} from './prompt-text.ts';
import type { RequestRecord } from './request-record.ts';
import { type LiveLoad, type Phase, runLoad } from './run-load.ts';
import { type ServeReport, type ServeSettings, serveReport } from './serve-report.ts';
import { streamRequest } from './stream-request.ts';
import { callPlain, firstModel, makeAgent, pathOf, type Target } from './target.ts';

interface ServeBenchRun {
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
    const body = requestBody(target, settings, { index: 0, text, outputTokens: 1 });
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

interface RequestText {
  /** Among all requests: makes sampled answers the same each time. */
  readonly index: number;
  readonly text: string;
  readonly outputTokens: number;
}

function requestBody(
  { model, endpoint }: Target,
  { temperature, ignoreEos, seed }: ServeSettings,
  { index, text, outputTokens }: RequestText,
): object {
  return {
    model,
    ...(endpoint === 'chat' ? { messages: [{ role: 'user', content: text }] } : { prompt: text }),
    max_tokens: outputTokens,
    temperature,
    ...(temperature > 0 ? { seed: seed + index } : {}),
    ...(ignoreEos ? { ignore_eos: true } : {}),
  };
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
      const { index, outputTokens, key } = request;
      const body = {
        ...requestBody(target, settings, { index, text, outputTokens }),
        stream: true,
        stream_options: { include_usage: true },
      };
      const { secret } = key;
      const onChunk = () => live.chunkCame();
      return streamRequest(target, { body, secret, timeoutMs: settings.timeoutMs, signal, nowMs, onChunk });
    },
    onStart: () => live.requestStarted(),
    onEnd: (record) => live.requestEnded(record),
  });
}
