// Throughput over concurrency as a picture: batched and one by one, for each length of prompts.

import { linePlot, type Point } from '../plot/line-plot.ts';
import type { ComparisonReport, ComparisonResult } from './comparison-report.ts';

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
