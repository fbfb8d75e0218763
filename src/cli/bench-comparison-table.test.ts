import { expect, it } from 'vitest';
import type { ComparisonReport, Mismatch, ServedSpeed } from '../bench/comparison/comparison-report.ts';
import { comparisonText } from './bench-comparison-table.ts';

const served = (ms: number, tokensPerSecond: number, peakMemoryBytes: number): ServedSpeed => ({
  latencyMs: { count: 8, mean: ms, p50: 1.1 * ms, p90: 1.2 * ms, p99: 1.3 * ms, max: 1.4 * ms },
  firstTokenMs: { count: 8, mean: ms / 2, p50: ms / 4, p90: ms / 3, p99: ms / 8, max: ms },
  tokensPerSecond,
  seconds: 1,
  peakMemoryBytes,
});

const report = (mismatches: Mismatch[]): ComparisonReport => ({
  benchmark: 'comparison',
  model: {
    name: 'some.gguf',
    architecture: 'llama',
    weightBytes: 770e6,
    kvBytesPerToken: 32768,
    kvType: 'f16',
    contextLength: 8192,
    source: 'file',
    loadSeconds: 1.234,
  },
  machine: { cpu: 'Some CPU', cores: 8, memoryBytes: 32e9, kernels: 'avx2', threads: 4, node: '20.0.0' },
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
  const text = comparisonText(report([]));
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
    report([{ promptTokens: 1024, concurrency: 4, served: 'batched', request: 5 }]),
  );
  expect(text).toContain('FAILED: 1 answers differ');
  expect(text).toContain('request 5 with a prompt of 1024, 4 at once');
  expect(text).not.toContain('the same tokens');
});
