// All that a comparison of one-by-one with batched serving found, as it goes out in JSON.

import type { ModelDescription } from '../offline/offline-settings.ts';
import type { Machine } from '../offline/target.ts';
import { linePlot, type Point } from '../plot/plots.ts';
import type { Distribution } from '../statistics.ts';
import type { Load } from './comparison-settings.ts';

export interface ComparisonReport {
  readonly benchmark: 'comparison';
  readonly model: ModelDescription;
  readonly machine: Machine;
  /** Tokens of each answer. */
  readonly outputTokens: number;
  readonly repeats: number;
  /** Resident memory of this process, in which the engine runs too. */
  readonly memory: { readonly beforeLoadingBytes: number; readonly loadedBytes: number };
  /** Each length of prompts with each concurrency, in the order they were asked for. */
  readonly results: readonly ComparisonResult[];
  /** Answers that were not the same tokens every time: none, or something is broken. */
  readonly mismatches: readonly Mismatch[];
}

export interface ComparisonResult extends Load {
  readonly promptTokens: number;
  readonly oneByOne: ServedSpeed;
  readonly batched: ServedSpeed;
  /** Tokens per second of batched over those of one by one. */
  readonly speedUp: number;
}

/** Each figure is the median of all repeats, memory the most of all. */
export interface ServedSpeed {
  /** Of a request, from submitting it to its last token; waiting for others is part of it. */
  readonly latencyMs: Distribution;
  /** The same to its first token. */
  readonly firstTokenMs: Distribution;
  /** Tokens of all answers over the time from the first request to the end of the last. */
  readonly tokensPerSecond: number;
  readonly seconds: number;
  readonly peakMemoryBytes: number;
}

export interface Mismatch {
  readonly promptTokens: number;
  readonly concurrency: number;
  readonly served: Served;
  /** Which of the trial's requests, from 0. */
  readonly request: number;
}

export type Served = 'oneByOne' | 'batched';

/** Throughput over concurrency as a picture: batched and one by one, for each length of prompts. */
export function comparisonPlot({ model, machine, results }: ComparisonReport): string {
  const sorted = results.toSorted((a, b) => a.concurrency - b.concurrency);
  const concurrencies = [...new Set(sorted.map(({ concurrency }) => concurrency))];
  const lengths = [...new Set(results.map(({ promptTokens }) => promptTokens))];
  const series = (name: string, promptTokens: number, value: (result: ComparisonResult) => number) => ({
    name: `${name}, prompts of ${promptTokens}`,
    points: sorted
      .filter((result) => result.promptTokens === promptTokens)
      .map((result): Point => [result.concurrency, value(result)]),
  });
  return linePlot({
    title: `${model.name}: one by one and batched on ${machine.threads} threads`,
    x: { label: 'requests at once', ticks: concurrencies },
    y: { label: 'tokens per second' },
    series: lengths.flatMap((length) => [
      series('batched', length, ({ batched }) => batched.tokensPerSecond),
      series('one by one', length, ({ oneByOne }) => oneByOne.tokensPerSecond),
    ]),
  });
}
