// All that an offline benchmark found, as it goes out in JSON.

import { linePlot, type Point } from '../plot/line-plot.ts';
import type { Machine } from './machine.ts';
import type { BatchedSpeed, DirectSpeed, PrefixSpeed, SpeculativeSpeed } from './measure.ts';
import type { ModelDescription } from './offline-model.ts';
import type { StepBytes } from './step-bytes.ts';

export interface OfflineReport {
  readonly benchmark: 'offline';
  readonly model: ModelDescription;
  readonly machine: Machine;
  /** The median of what was measured before, between and after; shares refer to it. */
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
  /** Where a share of right draft tokens was asked for. */
  readonly speculative?: SpeculativeSpeed;
  readonly bytesPerStep: StepBytes;
  /** What a step had to read, divided by what the memory could have given in its median time. */
  readonly bandwidthShare: number;
  /** Batched over direct: tokens per second while decoding, and whole requests with their prompts. */
  readonly speedUp: { readonly decode: number; readonly requests: number };
}

/** Throughput over streams as a picture: batched, direct, and what the memory's bandwidth would allow. */
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
