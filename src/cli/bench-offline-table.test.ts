import { expect, it } from 'vitest';
import type { DecodeSpeed } from '../bench/offline/measure.ts';
import type { OfflineReport, StreamsResult } from '../bench/offline/offline-bench.ts';
import { offlineReportText } from './bench-offline-table.ts';

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

const report = (results: StreamsResult[]): OfflineReport => ({
  benchmark: 'offline',
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
  bandwidth: { bytesPerSecond: 20e9, samples: [19e9, 20e9, 21e9] },
  promptTokens: 256,
  outputTokens: 64,
  repeats: 1,
  results,
});

it('a report shows machine, model and a line of figures a stream count', () => {
  const text = offlineReportText(report([result(8, 2, 0.431)]));
  expect(text).toContain('some.gguf, 770 MB in memory');
  expect(text).toContain('Some CPU, 4 of 8 threads, avx2 kernels');
  expect(text).toContain('20.0 GB/s, median of 3');
  expect(text).toMatch(/^ +8 +98\.4 +12\.7 +7\.7\d? +81\.2 +79\.9 +43 % +98 % +2\.0 % +0\.4 % +0\.1 %$/m);
  expect(text).toMatch(/^ +8 +321 +797 +1,590 +802 +6\.72 +46\.7 +6\.95$/m);
  expect(text).toContain('Direct mode was measured on 2 requests a line at most');
  expect(text).not.toContain('caches');
});

it('a report says where a share is more than can be, and nothing of a subset that is none', () => {
  const text = offlineReportText(report([result(1, 1, 1.2)]));
  expect(text).toContain("the weights lie in the processor's caches");
  expect(text).not.toContain('Direct mode was measured on');
});
