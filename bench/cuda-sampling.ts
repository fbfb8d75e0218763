// `npm run bench -- cuda-sampling KERNELS`: time to sample on an NVIDIA GPU over a vocabulary of 128 K, next to native code on the
// processor, and whether both sample the same. KERNELS is the compiled file. Ends in one JSON line.

import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { createNativeSampler } from '#src/compute/cpu/sample-rows.ts';
import { finishSampling } from '#src/compute/device-sampling/finish-sampling.ts';
import { planSampling } from '#src/compute/device-sampling/plan-sampling.ts';
import { type SamplingRequest, validateSampling } from '#src/sampling/parameters.ts';
import { seedFrom, uniformAt } from '#src/sampling/random.ts';
import type { SampleRow } from '#src/sampling/sample-row.ts';
import { TokenCounts } from '#src/sampling/token-counts.ts';
import { giveUp, openAddon, print, report } from './harness.ts';
import { modelLogits } from './sampling-on-gpu.ts';

const VOCABULARY = 128_256;
const STEEPNESS = 1.8;
const REPEATS = 200;
const MOST_WORDS = 4 << 20;

const scenarios: readonly { name: string; request: SamplingRequest }[] = [
  { name: 'greedy', request: { temperature: 0 } },
  { name: 'top-p 0.95', request: { topP: 0.95 } },
  {
    name: 'top-p 0.95, penalties of 2,000 tokens',
    request: { topP: 0.95, repetitionPenalty: 1.1, presencePenalty: 0.5, frequencyPenalty: 0.5 },
  },
  { name: 'top-p 0.95, 5 logprobs', request: { topP: 0.95, logprobs: 5 } },
];

const [kernelFile = ''] = process.argv.slice(2);
const kernels = new Uint8Array(readFileSync(kernelFile));
const addon = openAddon();
const threads = availableParallelism();
const native = createNativeSampler(addon, threads);
const counts = new TokenCounts(
  Array.from({ length: 2000 }, (_, index) => Math.floor(VOCABULARY * uniformAt(seedFrom(2n), index, 0))),
  [1, 2, 3, 2],
);

print(`vocabulary of ${VOCABULARY}; microseconds a step; native code on ${threads} threads`);
const results = [];
for (const rowCount of [1, 8, 64]) {
  print(`\n${`${rowCount} rows`.padEnd(40)} plan kernels  finish  native decided`);
  const logits = modelLogits(VOCABULARY, rowCount, STEEPNESS);
  for (const { name, request } of scenarios) {
    const row = measure(logits, rowsFor(rowCount, request));
    const columns = [row.plan, row.kernels, row.finish, row.native].map((time) =>
      time.toFixed(1).padStart(7),
    );
    print(`${name.padEnd(38)}${columns.join(' ')} ${row.decided}`);
    results.push({ rows: rowCount, name, ...row });
  }
}
report('cuda-sampling', { vocabulary: VOCABULARY, results });

function measure(logits: Float32Array<ArrayBuffer>, rows: readonly SampleRow[]) {
  const plan = best(() => planSampling(rows, VOCABULARY, MOST_WORDS));
  const planned = planSampling(rows, VOCABULARY, MOST_WORDS);
  const { words, lists, byteLength } = planned;
  const found = new Uint32Array(byteLength / 4);
  const seconds = addon.probeSampling(0, kernels, logits, VOCABULARY, words, lists, REPEATS, found);
  const finish = best(() => finishSampling(found.buffer, rows, planned, VOCABULARY));
  const expected = native(logits, VOCABULARY, rows);
  let decided = 0;
  for (const [index, result] of finishSampling(found.buffer, rows, planned, VOCABULARY).entries()) {
    if (result === undefined) continue;
    decided++;
    if (JSON.stringify(result) !== JSON.stringify(expected[index]))
      giveUp(`${JSON.stringify(result)} was sampled`);
  }
  return {
    plan,
    kernels: seconds * 1e6,
    finish,
    native: best(() => native(logits, VOCABULARY, rows)),
    decided,
  };
}

/** The fastest of some runs, in microseconds: other work on the machine only ever adds. */
function best(run: () => unknown): number {
  let least = Infinity;
  for (let repeat = 0; repeat < 20; repeat++) {
    const from = performance.now();
    run();
    least = Math.min(least, performance.now() - from);
  }
  return least * 1000;
}

function rowsFor(rowCount: number, request: SamplingRequest): SampleRow[] {
  return Array.from({ length: rowCount }, (_, row) => {
    const validation = validateSampling(request, { vocabSize: VOCABULARY, freshSeed: seedFrom(BigInt(row)) });
    if (!validation.ok) throw new Error(validation.problem);
    return { parameters: validation.parameters, counts, position: 0, choice: 0, forbidden: [] };
  });
}
