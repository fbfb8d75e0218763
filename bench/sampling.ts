// `npm run bench -- sampling`: time to sample a batch of 16 rows over a vocabulary of 128 K: native code beside the TypeScript oracle, on
// the same rows. The best of many runs stands, for other work on the machine only ever adds. Ends in one JSON line.

import { availableParallelism } from 'node:os';
import { createNativeSampler } from '#src/compute/cpu/sample-rows.ts';
import { type SamplingRequest, validateSampling } from '#src/sampling/parameters.ts';
import { seedFrom, uniformAt } from '#src/sampling/random.ts';
import type { SampleRow, SampleRows } from '#src/sampling/sample-row.ts';
import { sampleRows } from '#src/sampling/sampler.ts';
import { TokenCounts } from '#src/sampling/token-counts.ts';
import { openAddon, print, report } from './harness.ts';

const VOCABULARY = 128_256;
const ROWS = 16;
const NATIVE_REPEATS = 30;
const ORACLE_REPEATS = 2;

const penalties = { repetitionPenalty: 1.1, presencePenalty: 0.5, frequencyPenalty: 0.5 };
const peaked = 2.5;
const broad = 1.2;
const flat = 0.3;
const scenarios: readonly { name: string; request: SamplingRequest; spread: number }[] = [
  { name: 'greedy', request: { temperature: 0 }, spread: peaked },
  { name: 'greedy, 5 logprobs', request: { temperature: 0, logprobs: 5 }, spread: peaked },
  { name: 'temperature', request: {}, spread: peaked },
  { name: 'top-k 40', request: { topK: 40 }, spread: peaked },
  { name: 'top-p 0.95', request: { topP: 0.95 }, spread: peaked },
  { name: 'top-p 0.95, penalties', request: { topP: 0.95, ...penalties }, spread: peaked },
  {
    name: 'all filters, penalties, logprobs',
    request: { temperature: 0.8, topK: 200, topP: 0.95, minP: 0.02, logprobs: 20, ...penalties },
    spread: peaked,
  },
  { name: 'typical-p 0.9', request: { typicalP: 0.9 }, spread: peaked },
  { name: 'top-p 0.95, broad', request: { topP: 0.95 }, spread: broad },
  { name: 'top-p 0.95, flat', request: { topP: 0.95 }, spread: flat },
  { name: 'typical-p 0.9, flat', request: { typicalP: 0.9 }, spread: flat },
];

const addon = openAddon();
const threads = availableParallelism();
const single = createNativeSampler(addon, 1);
const shared = createNativeSampler(addon, threads);

print(
  `${ROWS} rows of ${VOCABULARY} logits; microseconds per row, best of ${NATIVE_REPEATS} (oracle: of ${ORACLE_REPEATS})`,
);
print(`${'scenario'.padEnd(34)} 1 thread  ${threads} threads    oracle`);
const results = scenarios.map(({ name, request, spread }) => {
  const logits = normalLogits(spread);
  const rows = Array.from({ length: ROWS }, (_, row) => sampleRow(request, row));
  const microseconds = {
    single: microsecondsPerRow(single, logits, rows, NATIVE_REPEATS),
    shared: microsecondsPerRow(shared, logits, rows, NATIVE_REPEATS),
    oracle: microsecondsPerRow(sampleRows, logits, rows.slice(0, 1), ORACLE_REPEATS),
  };
  const columns = Object.values(microseconds).map((value) => value.toFixed(0).padStart(9));
  print(`${name.padEnd(34)}${columns.join(' ')}`);
  return { name, ...microseconds };
});
report('sampling', { vocabulary: VOCABULARY, rows: ROWS, threads, results });

/** Normal noise, as the bulk of a model's logits, and twenty likely tokens above it. */
function normalLogits(spread: number): Float32Array {
  const seed = seedFrom(1n);
  return Float32Array.from({ length: ROWS * VOCABULARY }, (_, place) => {
    const radius = Math.sqrt(-2 * Math.log(1 - uniformAt(seed, place, 0)));
    const noise = spread * radius * Math.cos(2 * Math.PI * uniformAt(seed, place, 1));
    const likely = place % VOCABULARY < 20 ? 7 * spread : 0;
    return noise + likely;
  });
}

function sampleRow(request: SamplingRequest, row: number): SampleRow {
  const validation = validateSampling(request, { vocabSize: VOCABULARY, freshSeed: seedFrom(BigInt(row)) });
  if (!validation.ok) throw new Error(`${validation.parameter} ${validation.problem}`);
  const prompt = Array.from({ length: 2000 }, (_, place) => (place * 7919) % VOCABULARY);
  return {
    parameters: validation.parameters,
    counts: new TokenCounts(prompt, prompt.slice(0, 200)),
    position: 2200,
    choice: 0,
    forbidden: [],
  };
}

function microsecondsPerRow(
  sample: SampleRows,
  logits: Float32Array,
  rows: readonly SampleRow[],
  repeats: number,
): number {
  const times = Array.from({ length: repeats }, () => {
    const start = performance.now();
    sample(logits, VOCABULARY, rows);
    return performance.now() - start;
  });
  return (Math.min(...times) * 1000) / rows.length;
}
