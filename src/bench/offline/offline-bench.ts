// Measures a model through the real engine without a server: batched and direct in turn for each number of streams, with the
// memory bandwidth measured in between.

import type { Backend } from '../../compute/backend.ts';
import { calibratedBudget, measuredRows } from '../../engine/calibrate.ts';
import type { ModelSpec } from '../../model/spec.ts';
import { linePlot, type Point } from '../plot/plots.ts';
import { median } from '../statistics.ts';
import {
  type BatchedSpeed,
  type DirectSpeed,
  measureBatched,
  measureDirect,
  measurePrefix,
  measureSpeculative,
  type PrefixSpeed,
  type SpeculativeSpeed,
} from './measure.ts';
import { MeasuredEngine, type NextPrompt, randomPrompts } from './measured-engine.ts';
import {
  checkSettings,
  describeModel,
  LEAST_OUTPUT_TOKENS,
  type ModelDescription,
  memoryNeed,
  neededBlocks,
  type OfflineModel,
  type OfflineSettings,
} from './offline-settings.ts';
import { KnownAnswers } from './simulated-drafter.ts';
import { decodeStepBytes, type StepBytes } from './step-bytes.ts';
import type { BenchTarget, Machine } from './target.ts';

/** Without batching, speed does not depend on how many wait: a few requests stand for all. */
const DIRECT_REQUESTS = 2;

interface OfflineObserver {
  onLoad(share: number): void;
  onPhase(text: string): void;
}

interface StreamsSpeed {
  readonly streams: number;
  readonly batched: BatchedSpeed;
  readonly direct: DirectSpeed;
  readonly speculative?: SpeculativeSpeed;
}

interface Findings {
  readonly loadSeconds: number;
  readonly bandwidths: readonly number[];
  readonly speeds: readonly StreamsSpeed[];
  readonly prefix: PrefixSpeed | undefined;
}

export async function benchOffline(
  target: BenchTarget,
  model: OfflineModel,
  settings: OfflineSettings,
  observer: OfflineObserver,
): Promise<OfflineReport> {
  const { kvType } = settings;
  checkSettings(settings, model.spec, memoryNeed(target, model, kvType));
  const bandwidths = [await target.readBandwidth()];
  const started = performance.now();
  const backend = await target.create(model.spec, model.weights, {
    blockCount: neededBlocks(settings),
    stateSlots: 3 * Math.max(...settings.streams),
    kvType,
    onProgress: observer.onLoad,
  });
  const loadSeconds = (performance.now() - started) / 1000;
  try {
    const found = await measureAll(backend, model.spec, settings, observer, async () => {
      bandwidths.push(await target.readBandwidth());
    });
    return makeReport(target, model, settings, { loadSeconds, bandwidths, ...found });
  } finally {
    backend.close();
  }
}

async function measureAll(
  backend: Backend,
  { vocabSize, contextLength }: ModelSpec,
  settings: OfflineSettings,
  observer: OfflineObserver,
  betweenStreams: () => Promise<void>,
): Promise<Pick<Findings, 'speeds' | 'prefix'>> {
  const { blockCount } = backend;
  const options = { blockCount, budget: await calibratedBudget(backend), vocabSize, contextLength };
  const batched = new MeasuredEngine(backend, options);
  const direct = new MeasuredEngine(backend, { ...options, direct: true });
  const known = new KnownAnswers(settings.acceptanceRate ?? 0);
  const speculating = new MeasuredEngine(backend, {
    ...options,
    rowTimes: settings.acceptanceRate === undefined ? undefined : await measuredRows(backend),
    newDrafter: ({ prompt }, tokens) => known.drafter(prompt, tokens.length - prompt.length),
  });
  const nextPrompt = randomPrompts(vocabSize);
  observer.onPhase('warming up');
  for (const engine of [batched, direct]) await warmUp(engine, settings, nextPrompt);
  const speeds: StreamsSpeed[] = [];
  for (const streams of settings.streams) {
    const name = streams === 1 ? '1 stream' : `${streams} streams`;
    observer.onPhase(`${name}, batched`);
    const together = await measureBatched(batched, streams, settings, nextPrompt);
    observer.onPhase(`${name}, direct`);
    const requests = Math.min(streams, DIRECT_REQUESTS);
    const inTurn = await measureDirect(direct, requests, settings, nextPrompt);
    const speed = { streams, batched: together, direct: inTurn };
    if (settings.acceptanceRate === undefined) speeds.push(speed);
    else {
      observer.onPhase(`${name}, with drafts`);
      const speculative = await measureSpeculative(
        batched,
        speculating,
        known,
        streams,
        settings,
        nextPrompt,
      );
      speeds.push({ ...speed, speculative });
    }
    await betweenStreams();
  }
  const { prefixTokens, repeats } = settings;
  if (prefixTokens !== undefined) observer.onPhase(`prompt of ${prefixTokens} tokens, cold and cached`);
  const prefix =
    prefixTokens === undefined ? undefined : await measurePrefix(batched, prefixTokens, repeats, nextPrompt);
  await Promise.all([batched.close(), direct.close(), speculating.close()]);
  return { speeds, prefix };
}

/** Lets the engine measure its steps, and the system commit memory. */
async function warmUp(
  engine: MeasuredEngine,
  { promptTokens }: OfflineSettings,
  nextPrompt: NextPrompt,
): Promise<void> {
  await engine.run([{ prompt: nextPrompt(promptTokens), outputTokens: LEAST_OUTPUT_TOKENS }]);
}

function makeReport(
  target: BenchTarget,
  model: OfflineModel,
  settings: OfflineSettings,
  { speeds, prefix, loadSeconds, bandwidths }: Findings,
): OfflineReport {
  const { promptTokens, outputTokens, repeats, kvType, acceptanceRate } = settings;
  const bytesPerSecond = median(bandwidths);
  return {
    benchmark: 'offline',
    model: describeModel(target, model, kvType, loadSeconds),
    machine: target.machine,
    bandwidth: { bytesPerSecond, samples: bandwidths },
    promptTokens,
    outputTokens,
    repeats,
    ...(acceptanceRate === undefined ? {} : { acceptanceRate }),
    results: speeds.map((speed) => compare(target, model, settings, speed, bytesPerSecond)),
    ...(prefix === undefined ? {} : { prefix }),
  };
}

function compare(
  target: BenchTarget,
  { spec, weights }: OfflineModel,
  { promptTokens, outputTokens, kvType }: OfflineSettings,
  speed: StreamsSpeed,
  bytesPerSecond: number,
): StreamsResult {
  const { streams, batched, direct } = speed;
  // The measured steps go from the third token of the answer to the last.
  const contextTokens = promptTokens + (outputTokens + 1) / 2;
  const bytesPerStep = decodeStepBytes(spec, weights, target.sizes, { streams, contextTokens, kvType });
  const seconds = batched.decode.stepMs.median / 1000;
  return {
    ...speed,
    bytesPerStep,
    bandwidthShare: (bytesPerStep.weights + bytesPerStep.kv) / (seconds * bytesPerSecond),
    speedUp: {
      decode: batched.decode.tokensPerSecond / direct.decode.tokensPerSecond,
      requests: (streams * direct.secondsPerRequest) / batched.seconds,
    },
  };
}

export interface OfflineReport {
  readonly benchmark: 'offline';
  readonly model: ModelDescription;
  readonly machine: Machine;
  /** The median of all measurements; shares refer to it. */
  readonly bandwidth: { readonly bytesPerSecond: number; readonly samples: readonly number[] };
  readonly promptTokens: number;
  readonly outputTokens: number;
  readonly repeats: number;
  readonly acceptanceRate?: number;
  readonly results: readonly StreamsResult[];
  readonly prefix?: PrefixSpeed;
}

export interface StreamsResult {
  readonly streams: number;
  readonly batched: BatchedSpeed;
  readonly direct: DirectSpeed;
  readonly speculative?: SpeculativeSpeed;
  readonly bytesPerStep: StepBytes;
  /** Bytes a step must read over what the memory could deliver in its median time. */
  readonly bandwidthShare: number;
  /** Batched over direct: decoding, and whole requests with their prompts. */
  readonly speedUp: { readonly decode: number; readonly requests: number };
}

export function throughputPlot({ model, machine, bandwidth, results }: OfflineReport): string {
  const points = (value: (result: StreamsResult) => number): Point[] =>
    results.map((result): Point => [result.streams, value(result)]).sort(([a], [b]) => a - b);
  return linePlot({
    title: `${model.name}: decoding on ${machine.threads} threads`,
    x: { label: 'streams', ticks: points(() => 0).map(([streams]) => streams) },
    y: { label: 'tokens per second' },
    series: [
      { name: 'batched', points: points(({ batched }) => batched.decode.tokensPerSecond) },
      { name: 'direct', points: points(({ direct }) => direct.decode.tokensPerSecond) },
      {
        name: 'bandwidth limit',
        points: points(
          ({ streams, bytesPerStep }) =>
            (streams * bandwidth.bytesPerSecond) / (bytesPerStep.weights + bytesPerStep.kv),
        ),
      },
    ],
  });
}
