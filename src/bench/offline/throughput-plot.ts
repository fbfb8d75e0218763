// Throughput over streams as a picture: batched, direct, and what the memory's bandwidth would allow.

import { linePlot, type Point } from '../plot/line-plot.ts';
import type { OfflineReport, StreamsResult } from './offline-report.ts';

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
