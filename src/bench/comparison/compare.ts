// Compares serving one request at a time with batching them: the same requests through the same engine, once without
// batching and once with it, in turns, for every length of prompts and every concurrency. Both must give the same tokens.

import type { Backend } from '../../compute/backend.ts';
import type { MeasuredEngineOptions } from '../offline/measured-engine.ts';
import { randomPrompts } from '../offline/random-prompts.ts';
import { type Distribution, median } from '../serve/statistics.ts';
import type { ComparisonResult, Mismatch, Served, ServedSpeed } from './comparison-report.ts';
import type { ComparisonSettings, Load } from './comparison-settings.ts';
import { runTrial, type Trial } from './trial.ts';

export interface ComparisonObserver {
  /** Before every trial, and of each what is measured next. */
  onPhase(text: string): void;
  /** Ends the comparison before the next trial. */
  readonly signal?: AbortSignal | undefined;
}

interface Comparison {
  readonly results: readonly ComparisonResult[];
  readonly mismatches: readonly Mismatch[];
}

/** A length of prompts with a load, and its trials so far. */
interface Cell extends Load {
  readonly promptTokens: number;
  readonly prompts: readonly Int32Array[];
  /** What the requests were first answered; every other answer is held to it. */
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

/** The same prompts for every load, as many of them as it asks for. */
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

/** Compiles the code and touches the memory before anything counts. */
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

/** The median of each figure. */
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
