// Compares serving one request at a time with batching them: the same requests through the same engine, once without
// batching and once with it, in turns, for every length of prompts and every concurrency. Both must give the same tokens.

import type { Backend } from '../../compute/backend.ts';
import { blocksFor } from '../../engine/cache/block-tables.ts';
import { calibratedBudget } from '../../engine/calibrate.ts';
import { MeasuredEngine, type MeasuredEngineOptions, randomPrompts } from '../offline/measured-engine.ts';
import { checkMemory, describeModel, memoryNeed, type OfflineModel } from '../offline/offline-settings.ts';
import type { BenchTarget } from '../offline/target.ts';
import { type Distribution, distributionOf, median } from '../statistics.ts';
import type {
  ComparisonReport,
  ComparisonResult,
  Mismatch,
  Served,
  ServedSpeed,
} from './comparison-report.ts';
import {
  type ComparisonOptions,
  type ComparisonSettings,
  comparisonBlocks,
  comparisonSettings,
  type Load,
  mostAtOnce,
} from './comparison-settings.ts';

export interface BenchObserver extends ComparisonObserver {
  onLoad(share: number): void;
}

export async function benchComparison(
  target: BenchTarget,
  model: OfflineModel,
  wanted: ComparisonOptions,
  observer: BenchObserver,
): Promise<ComparisonReport> {
  const { vocabSize, contextLength } = model.spec;
  const settings = comparisonSettings(wanted, contextLength);
  const { kvType, tokens, repeats, loads } = settings;
  const blockCount = comparisonBlocks(settings);
  const users = `${mostAtOnce(loads)} requests at once`;
  checkMemory(memoryNeed(target, model, kvType), blockCount, users, 'fewer at once, or shorter prompts');
  const beforeLoadingBytes = process.memoryUsage.rss();
  const started = performance.now();
  const backend = await target.create(model.spec, model.weights, {
    blockCount,
    kvType,
    onProgress: observer.onLoad,
  });
  const loadSeconds = (performance.now() - started) / 1000;
  const loadedBytes = process.memoryUsage.rss();
  try {
    const options = { blockCount, budget: await calibratedBudget(backend), vocabSize, contextLength };
    const found = await compare(backend, options, settings, observer);
    return {
      benchmark: 'comparison',
      model: describeModel(target, model, kvType, loadSeconds),
      machine: target.machine,
      outputTokens: tokens,
      repeats,
      memory: { beforeLoadingBytes, loadedBytes },
      ...found,
    };
  } finally {
    backend.close();
  }
}

interface ComparisonObserver {
  onPhase(text: string): void;
  readonly signal?: AbortSignal | undefined;
}

interface Comparison {
  readonly results: readonly ComparisonResult[];
  readonly mismatches: readonly Mismatch[];
}

interface Cell extends Load {
  readonly promptTokens: number;
  readonly prompts: readonly Int32Array[];
  /** The first answers; every other answer must equal them. */
  answers: readonly (readonly number[])[] | undefined;
  readonly trials: Record<Served, Trial[]>;
}

const names: Readonly<Record<Served, string>> = { oneByOne: 'one by one', batched: 'batched' };

export async function compare(
  backend: Backend,
  options: MeasuredEngineOptions,
  settings: ComparisonSettings,
  { onPhase, signal }: ComparisonObserver,
): Promise<Comparison> {
  const { tokens, repeats } = settings;
  const cells = cellsOf(settings, options.vocabSize);
  const mismatches: Mismatch[] = [];
  onPhase('warming up');
  await warmUp(backend, options, cells[0] as Cell);
  for (let round = 0; round < repeats; round++) {
    for (const cell of cells) {
      const { prompts, concurrency } = cell;
      for (const served of turns(round)) {
        signal?.throwIfAborted();
        onPhase(`round ${round + 1} of ${repeats}: ${describe(cell)}, ${names[served]}`);
        const trial = await runTrial(backend, options, { served, prompts, concurrency, tokens });
        cell.trials[served].push(trial);
        mismatches.push(...differences(cell, served, trial));
      }
    }
  }
  return { results: cells.map(resultOf), mismatches };
}

function cellsOf({ prompts, loads }: ComparisonSettings, vocabSize: number): Cell[] {
  const nextPrompt = randomPrompts(vocabSize);
  const most = Math.max(...loads.map(({ requests }) => requests));
  return prompts.flatMap((promptTokens) => {
    const all = Array.from({ length: most }, () => nextPrompt(promptTokens));
    return loads.map((load) => ({
      ...load,
      promptTokens,
      prompts: all.slice(0, load.requests),
      answers: undefined,
      trials: { oneByOne: [], batched: [] },
    }));
  });
}

/** Compiles code and touches memory before anything counts. */
async function warmUp(backend: Backend, options: MeasuredEngineOptions, { prompts }: Cell): Promise<void> {
  for (const served of turns(0)) {
    await runTrial(backend, options, { served, prompts: prompts.slice(0, 2), concurrency: 2, tokens: 4 });
  }
}

/** Each goes first in turn, so that neither gains by a machine that slows down or warms up. */
function turns(round: number): readonly Served[] {
  return round % 2 === 0 ? ['oneByOne', 'batched'] : ['batched', 'oneByOne'];
}

function describe({ requests, promptTokens, concurrency }: Cell): string {
  return `${requests} prompts of ${promptTokens} tokens, ${concurrency} at once`;
}

function differences(cell: Cell, served: Served, { answers }: Trial): Mismatch[] {
  cell.answers ??= answers;
  const { concurrency, promptTokens } = cell;
  return cell.answers.flatMap((expected, request) =>
    isSame(expected, answers[request] ?? []) ? [] : [{ promptTokens, concurrency, served, request }],
  );
}

function isSame(expected: readonly number[], tokens: readonly number[]): boolean {
  return expected.length === tokens.length && expected.every((token, place) => token === tokens[place]);
}

function resultOf({ promptTokens, concurrency, requests, trials }: Cell): ComparisonResult {
  const ratios = trials.batched.map(
    ({ tokensPerSecond }, round) => tokensPerSecond / (trials.oneByOne[round] as Trial).tokensPerSecond,
  );
  return {
    promptTokens,
    concurrency,
    requests,
    oneByOne: speedOf(trials.oneByOne),
    batched: speedOf(trials.batched),
    speedUp: median(ratios),
  };
}

function speedOf(trials: readonly Trial[]): ServedSpeed {
  return {
    latencyMs: middle(trials.map(({ latencyMs }) => latencyMs)),
    firstTokenMs: middle(trials.map(({ firstTokenMs }) => firstTokenMs)),
    tokensPerSecond: median(trials.map(({ tokensPerSecond }) => tokensPerSecond)),
    seconds: median(trials.map(({ seconds }) => seconds)),
    peakMemoryBytes: Math.max(...trials.map(({ peakMemoryBytes }) => peakMemoryBytes)),
  };
}

function middle(distributions: readonly Distribution[]): Distribution {
  const of = (name: keyof Distribution) => median(distributions.map((one) => one[name]));
  return {
    count: of('count'),
    mean: of('mean'),
    p50: of('p50'),
    p90: of('p90'),
    p99: of('p99'),
    max: of('max'),
  };
}

const LOOK_EVERY_MS = 20;

interface Trial extends ServedSpeed {
  readonly answers: readonly (readonly number[])[];
}

interface TrialLoad {
  readonly served: Served;
  readonly prompts: readonly Int32Array[];
  readonly concurrency: number;
  readonly tokens: number;
}

async function runTrial(
  backend: Backend,
  options: MeasuredEngineOptions,
  { served, prompts, concurrency, tokens }: TrialLoad,
): Promise<Trial> {
  const direct = served === 'oneByOne';
  const longest = Math.max(...prompts.map(({ length }) => length)) + tokens;
  const blockLimit = (direct ? 1 : concurrency) * blocksFor(longest);
  const engine = new MeasuredEngine(backend, { ...options, blockLimit, direct });
  const stopWatching = watchResidentMemory();
  try {
    const requests = prompts.map((prompt) => ({ prompt, outputTokens: tokens }));
    const { ms, answers } = await engine.run(requests, concurrency);
    const latencies = answers.map(({ submittedMs, endMs }) => endMs - submittedMs);
    const firstTokens = answers.map(({ submittedMs, firstTokenMs }) => firstTokenMs - submittedMs);
    return {
      latencyMs: distributionOf(latencies) as Distribution,
      firstTokenMs: distributionOf(firstTokens) as Distribution,
      tokensPerSecond: (1000 * prompts.length * tokens) / ms,
      seconds: ms / 1000,
      peakMemoryBytes: stopWatching(),
      answers: answers.map((answer) => answer.tokens),
    };
  } finally {
    stopWatching();
    await engine.close();
    backend.releaseBlocks(Int32Array.from({ length: backend.blockCount }, (_, block) => block));
  }
}

/** Returns a function that stops it and gives the peak. */
function watchResidentMemory(): () => number {
  let mostBytes = process.memoryUsage.rss();
  const look = () => {
    mostBytes = Math.max(mostBytes, process.memoryUsage.rss());
  };
  const timer = setInterval(look, LOOK_EVERY_MS);
  return () => {
    clearInterval(timer);
    look();
    return mostBytes;
  };
}
