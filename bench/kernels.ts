// `npm run bench -- kernels`: speed of the matrix kernels per ISA and format beside the machine's own read
// bandwidth. A product that reads its weights at that bandwidth cannot be faster. Ends in one JSON line.

import { availableParallelism } from 'node:os';
import type { TensorType } from '#src/weights/tensor-type.ts';
import { openAddon, print, report } from './harness.ts';

// A feed-forward matrix of a 1B model, large enough to leave the second-level caches.
const OUTPUTS = 8192;
const INPUTS = 2048;
const REPEATS = 15;
const types: readonly TensorType[] = [
  'Q8_0',
  'Q4_0',
  'Q4_K',
  'Q6_K',
  'IQ4_NL',
  'MXFP4',
  'NVFP4',
  'MLX4_G64_BF16',
  'MLX8_G64_BF16',
  'F8_G128',
  'BF16',
  'F16',
  'F32',
];
const rowCounts = [1, 4, 8, 16, 128];

const addon = openAddon();
const threads = availableParallelism();
const bandwidth = addon.readBandwidth(threads, 1024);
const single = addon.readBandwidth(1, 1024);

print(
  `read bandwidth: ${(single / 1e9).toFixed(1)} GB/s with 1 thread, ${(bandwidth / 1e9).toFixed(1)} with ${threads}`,
);
print(
  `matrix ${OUTPUTS} x ${INPUTS}, ${threads} threads, median of ${REPEATS}; the matrix may stay in a large last-level cache`,
);
print('isa      type      rows     GB/s   GMAC/s   ms');

const results = [];
for (const isa of addon.kernels()) {
  for (const type of types) {
    // Scalar code is the oracle, not a contender: one row shows its speed.
    for (const rows of isa === 'scalar' ? [1] : rowCounts) {
      const repeats = isa === 'scalar' ? 3 : REPEATS;
      const { seconds, bytes } = addon.timeMultiply(isa, type, OUTPUTS, INPUTS, rows, threads, repeats);
      const gigabytes = bytes / seconds / 1e9;
      const gigamacs = (OUTPUTS * INPUTS * rows) / seconds / 1e9;
      results.push({ isa, type, rows, gigabytesPerSecond: gigabytes, gigamacsPerSecond: gigamacs });
      print(
        [
          isa.padEnd(8),
          type.padEnd(9),
          String(rows).padStart(4),
          gigabytes.toFixed(1).padStart(8),
          gigamacs.toFixed(1).padStart(8),
          (seconds * 1e3).toFixed(2).padStart(6),
        ].join(' '),
      );
    }
  }
}
report('kernels', {
  threads,
  readBandwidth: { oneThread: single, allThreads: bandwidth },
  outputs: OUTPUTS,
  inputs: INPUTS,
  results,
});
