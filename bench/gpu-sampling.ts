// `npm run bench -- gpu-sampling [GPU]`: time to sample on a GPU over a vocabulary of 128 K, next to reading whole logits back
// and sampling in native code; how many rows the GPU decides; and whether both sample the same.

import { availableParallelism } from 'node:os';
import { loadAddon } from '#src/compute/cpu/binding.ts';
import { createNativeSampler } from '#src/compute/cpu/sample-rows.ts';
import type { Found } from '#src/compute/device-sampling/finish-sampling.ts';
import { weighCandidates } from '#src/sampling/candidates.ts';
import { adjustedLogits } from '#src/sampling/logit-edits.ts';
import { type SamplingRequest, validateSampling } from '#src/sampling/parameters.ts';
import { seedFrom, uniformAt } from '#src/sampling/random.ts';
import type { SampleResult, SampleRow } from '#src/sampling/sample-row.ts';
import { isGreedy, sampleRows } from '#src/sampling/sampler.ts';
import { TokenCounts } from '#src/sampling/token-counts.ts';
import { gpuFrom, print, report } from './harness.ts';
import { modelLogits, type SamplingOnGpu, samplingOnGpu } from './sampling-on-gpu.ts';

const gpu = await gpuFrom(process.argv[2]);
const { software } = gpu.info;
const VOCABULARY = 128_256;
const rowCounts = software ? [2] : [1, 8, 64];
const SAMPLES = 1024;
const TIMES = software ? 1 : 100;
const REPEATS = software ? 1 : 20;

const penalties = { repetitionPenalty: 1.1, presencePenalty: 0.5, frequencyPenalty: 0.5 };
const usual = 1.8;
const broad = 1.3;
const scenarios: readonly { name: string; request: SamplingRequest; steepness?: number }[] = [
  { name: 'greedy', request: { temperature: 0 } },
  { name: 'temperature 1', request: {} },
  { name: 'temperature 1, broad', request: {}, steepness: broad },
  { name: 'temperature 0.7', request: { temperature: 0.7 } },
  { name: 'top-p 0.95', request: { topP: 0.95 } },
  { name: 'top-p 0.95, broad', request: { topP: 0.95 }, steepness: broad },
  { name: 'top-k 40, top-p 0.9, temperature 1.2', request: { temperature: 1.2, topK: 40, topP: 0.9 } },
  { name: 'min-p 0.05, temperature 1.5', request: { temperature: 1.5, minP: 0.05 } },
  { name: 'top-p 0.95, penalties of 2,000 tokens', request: { topP: 0.95, ...penalties } },
  { name: 'top-p 0.95, 5 logprobs', request: { topP: 0.95, logprobs: 5 } },
  { name: 'typical-p 0.9', request: { typicalP: 0.9 } },
];

const load = loadAddon();
const threads = availableParallelism();
const native = load.available ? createNativeSampler(load.addon, threads) : sampleRows;
const counts = new TokenCounts(
  Array.from({ length: 2000 }, (_, index) => Math.floor(VOCABULARY * uniformAt(seedFrom(2n), index, 0))),
  [1, 2, 3, 2],
);

print(
  `${gpu.info.name}, vocabulary of ${VOCABULARY}; microseconds a step; native code on ${threads} threads`,
);
const results = [];
for (const rowCount of rowCounts) {
  print(`\n${`${rowCount} rows`.padEnd(40)} plan kernel   read finish   whole native decided`);
  for (const { name, request, steepness = usual } of scenarios) {
    const logits = modelLogits(VOCABULARY, rowCount, steepness);
    const samples = await samplingOnGpu(gpu, logits, VOCABULARY);
    const row = await measure(samples, logits, rowCount, request);
    const { planning, kernel, read, finish, whole, nativeTime, decided } = row;
    const columns = [planning, kernel, read, finish, whole, nativeTime].map((time) =>
      time.toFixed(0).padStart(6),
    );
    print(`${name.padEnd(40)}${columns.join(' ')} ${`${(100 * decided).toFixed(1)} %`.padStart(9)}`);
    results.push({ rows: rowCount, name, ...row });
    samples.close();
  }
}
gpu.close();
report('gpu-sampling', { gpu: gpu.info.name, vocabulary: VOCABULARY, results });

async function measure(
  samples: SamplingOnGpu,
  logits: Float32Array<ArrayBuffer>,
  rowCount: number,
  request: SamplingRequest,
) {
  const rows = rowsAt(rowCount, request, 0);
  const planning = await best(() => samples.plan(rows));
  const planned = samples.plan(rows);
  await samples.prepare();
  const kernel = (await best(() => samples.prepare(TIMES))) / TIMES;
  const read = await best(() => samples.read(planned));
  const answer = await samples.read(planned);
  const finish = await best(() => samples.finish(answer, planned, rows));
  const whole = await best(() => samples.readLogits());
  const nativeTime = await best(() => native(logits, VOCABULARY, rows));
  checkTotal(samples.foundOf(answer, 0, 0), logits.subarray(0, VOCABULARY), rows[0] as SampleRow);
  const sampleAt = (at: readonly SampleRow[]) => samples.finish(answer, planned, at);
  const decided = shareDecided(sampleAt, logits, rowCount, request);
  return { planning, kernel, read, finish, whole, nativeTime, decided };
}

/** The sum of all weights equals the oracle's exactly; sampled tokens alone would hardly show a difference. */
function checkTotal(found: Found, logits: Float32Array, row: SampleRow): void {
  const { temperature, typicalP } = row.parameters;
  if (isGreedy(row.parameters) || typicalP < 1) return;
  const { total } = weighCandidates(adjustedLogits(logits, row), found.highest, temperature);
  if (found.total !== total) throw new Error(`weights sum up to ${found.total} instead of ${total}`);
}

/** Samples at other positions come from the same candidates. */
function shareDecided(
  sampleAt: (rows: readonly SampleRow[]) => readonly (SampleResult | undefined)[],
  logits: Float32Array<ArrayBuffer>,
  rowCount: number,
  request: SamplingRequest,
): number {
  const positions = Math.ceil(SAMPLES / rowCount);
  let decided = 0;
  for (let position = 0; position < positions; position++) {
    const rows = rowsAt(rowCount, request, position);
    const sampled = sampleAt(rows);
    const expected = native(logits, VOCABULARY, rows);
    for (const [index, result] of sampled.entries()) {
      if (result === undefined) continue;
      decided++;
      if (JSON.stringify(result) === JSON.stringify(expected[index])) continue;
      throw new Error(`${JSON.stringify(request)}: ${JSON.stringify(result)} was sampled`);
    }
  }
  return decided / (positions * rowCount);
}

/** The fastest of some runs, in microseconds: other work on the machine only ever adds. */
async function best(run: () => unknown): Promise<number> {
  let least = Infinity;
  for (let repeat = 0; repeat < REPEATS; repeat++) {
    const from = performance.now();
    await run();
    least = Math.min(least, performance.now() - from);
  }
  return least * 1000;
}

function rowsAt(rowCount: number, request: SamplingRequest, position: number): SampleRow[] {
  return Array.from({ length: rowCount }, (_, row) => {
    const validation = validateSampling(request, { vocabSize: VOCABULARY, freshSeed: seedFrom(BigInt(row)) });
    if (!validation.ok) throw new Error(validation.problem);
    return { parameters: validation.parameters, counts, position, choice: 0, forbidden: [] };
  });
}
