// The report of a comparison, as it goes out in JSON.

import type { ModelDescription } from '../offline/offline-settings.ts';
import type { Machine } from '../offline/target.ts';
import { linePlot, type Point } from '../plot/plots.ts';
import type { Distribution } from '../statistics.ts';
import type { Load } from './comparison-settings.ts';

export interface ComparisonReport {
  readonly benchmark: 'comparison';
  readonly model: ModelDescription;
  readonly machine: Machine;
  readonly outputTokens: number;
  readonly repeats: number;
  /** Resident memory of this process, which includes the engine. */
  readonly memory: { readonly beforeLoadingBytes: number; readonly loadedBytes: number };
  readonly results: readonly ComparisonResult[];
  /** Answers that differed between runs: none, unless something is broken. */
  readonly mismatches: readonly Mismatch[];
}

export interface ComparisonResult extends Load {
  readonly promptTokens: number;
  readonly oneByOne: ServedSpeed;
  readonly batched: ServedSpeed;
  readonly speedUp: number;
}

/** Each figure is the median of all repeats, memory the most of all. */
export interface ServedSpeed {
  /** From submitting a request to its last token; includes waiting for others. */
  readonly latencyMs: Distribution;
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
  readonly request: number;
}

export type Served = 'oneByOne' | 'batched';

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
