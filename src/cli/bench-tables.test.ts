import { expect, it } from 'vitest';
import type { ComparisonReport, Mismatch, ServedSpeed } from '../bench/comparison/comparison-report.ts';
import type { DecodeSpeed } from '../bench/offline/measure.ts';
import type { OfflineReport, StreamsResult } from '../bench/offline/offline-bench.ts';
import type { ModelDescription } from '../bench/offline/offline-settings.ts';
import { comparisonText, offlineReportText } from './bench-tables.ts';

const model: ModelDescription = {
  name: 'some.gguf',
  architecture: 'llama',
  weightBytes: 770e6,
  kvBytesPerToken: 32768,
  kvType: 'f16',
  contextLength: 8192,
  source: 'file',
  loadSeconds: 1.234,
};
const machine = { cpu: 'Some CPU', cores: 8, memoryBytes: 32e9, kernels: 'avx2', threads: 4, node: '20.0.0' };

const served = (ms: number, tokensPerSecond: number, peakMemoryBytes: number): ServedSpeed => ({
  latencyMs: { count: 8, mean: ms, p50: 1.1 * ms, p90: 1.2 * ms, p99: 1.3 * ms, max: 1.4 * ms },
  firstTokenMs: { count: 8, mean: ms / 2, p50: ms / 4, p90: ms / 3, p99: ms / 8, max: ms },
  tokensPerSecond,
  seconds: 1,
  peakMemoryBytes,
});

const comparisonReport = (mismatches: Mismatch[]): ComparisonReport => ({
  benchmark: 'comparison',
  model,
  machine,
  outputTokens: 32,
  repeats: 3,
  memory: { beforeLoadingBytes: 80e6, loadedBytes: 860e6 },
  results: [
    {
      promptTokens: 1024,
      concurrency: 4,
      requests: 8,
      oneByOne: served(4000, 12.34, 870e6),
      batched: served(1000, 45.67, 910e6),
      speedUp: 3.701,
    },
  ],
  mismatches,
});

it('a comparison shows model, machine, and two lines for each load', () => {
  const text = comparisonText(comparisonReport([]));
  expect(text).toContain('some.gguf, 770 MB in memory, loaded in 1.23 s');
  expect(text).toContain('Some CPU, 4 of 8 threads, avx2 kernels');
  expect(text).toContain('80.0 MB resident, 860 MB with the model');
  expect(text).toContain('answers of 32 tokens, medians of 3 rounds:');
  expect(text).toMatch(/^ +1,024 +4 +one by one +4,000 +4,400 +5,200 +2,000 +1,000 +500 +12\.3 +870 MB$/m);
  expect(text).toMatch(/^ +batched +1,000 +1,100 +1,300 +500 +250 +125 +45\.7 +3\.70 +910 MB$/m);
  expect(text).toContain('All 48 answers: the same tokens one by one and batched.');
});

it('a comparison whose answers differ says so, and where', () => {
  const text = comparisonText(
    comparisonReport([{ promptTokens: 1024, concurrency: 4, served: 'batched', request: 5 }]),
  );
  expect(text).toContain('FAILED: 1 answers differ');
  expect(text).toContain('request 5 with a prompt of 1024, 4 at once');
  expect(text).not.toContain('the same tokens');
});

const decode = (tokensPerSecond: number): DecodeSpeed => ({
  steps: 62,
  tokensPerSecond,
  stepMs: { median: 81.23, best: 79.9, worst: 95.1 },
  shares: { compute: 0.975, sample: 0.02, schedule: 0.004, rest: 0.001 },
});

const result = (streams: number, requests: number, bandwidthShare: number): StreamsResult => ({
  streams,
  batched: {
    prefill: { tokensPerSecond: 321.4, firstTokenMs: { median: 796.5, last: 1593 } },
    decode: decode(98.44),
    seconds: 6.72,
  },
  direct: {
    requests,
    firstTokenMs: 801.9,
    prefillTokensPerSecond: 319,
    decode: decode(12.71),
    secondsPerRequest: 5.84,
  },
  bytesPerStep: { weights: 7e8, kv: 1e7 },
  bandwidthShare,
  speedUp: { decode: 7.745, requests: 6.95 },
});

const offlineReport = (results: StreamsResult[]): OfflineReport => ({
  benchmark: 'offline',
  model,
  machine,
  bandwidth: { bytesPerSecond: 20e9, samples: [19e9, 20e9, 21e9] },
  promptTokens: 256,
  outputTokens: 64,
  repeats: 1,
  results,
});

it('a report shows machine, model and a line of figures a stream count', () => {
  const text = offlineReportText(offlineReport([result(8, 2, 0.431)]));
  expect(text).toContain('some.gguf, 770 MB in memory');
  expect(text).toContain('Some CPU, 4 of 8 threads, avx2 kernels');
  expect(text).toContain('20.0 GB/s, median of 3');
  expect(text).toMatch(/^ +8 +98\.4 +12\.7 +7\.7\d? +81\.2 +79\.9 +43 % +98 % +2\.0 % +0\.4 % +0\.1 %$/m);
  expect(text).toMatch(/^ +8 +321 +797 +1,590 +802 +6\.72 +46\.7 +6\.95$/m);
  expect(text).toContain('Direct mode was measured on 2 requests a line at most');
  expect(text).not.toContain('caches');
});

it('a report says where a share is more than can be, and nothing of a subset that is none', () => {
  const text = offlineReportText(offlineReport([result(1, 1, 1.2)]));
  expect(text).toContain("the weights lie in the processor's caches");
  expect(text).not.toContain('Direct mode was measured on');
});
