// `npm run bench -- gpu-steps [SHAPE:TYPE [streams] [steps] [layers] [GPU]]`: how evenly steps come on a GPU, of a model of that
// shape with random weights: the median, the 99th percentile and the slowest of many steps, each of which decodes a token
// for every stream, and the pauses of the garbage collector meanwhile. Ends in one JSON line.

import { PerformanceObserver } from 'node:perf_hooks';
import { dummyModel } from '#src/bench/dummy-model.ts';
import { BLOCK_TOKENS } from '#src/compute/backend.ts';
import { type BatchSequence, buildBatch } from '#src/compute/batch.ts';
import { createWebGpuBackend } from '#src/compute/webgpu/backend.ts';
import { buildSpec } from '#src/model/build-spec.ts';
import { validateSampling } from '#src/sampling/parameters.ts';
import { seedFrom } from '#src/sampling/random.ts';
import type { SampleRow } from '#src/sampling/sample-row.ts';
import { countFrom, dummyFrom, giveUp, gpuFrom, print, report } from './harness.ts';

/** Steps before the ones that count: pipelines are compiled and timed in them. */
const WARM_UP = 20;

const [model = 'llama-3.2-1b:q8_0', streamsText = '1', stepsText = '2000', layersText, gpuName] =
  process.argv.slice(2);
const wanted = dummyFrom(model);
const [streams, steps] = [countFrom(streamsText, 'streams'), countFrom(stepsText, 'steps')];
const layers = layersText === undefined ? undefined : countFrom(layersText, 'layers');

const files = dummyModel(wanted.shape, wanted.type, layers);
const spec = buildSpec(files);
const { vocabSize, contextLength } = spec;
if (WARM_UP + steps > contextLength) giveUp(`the model has a context of ${contextLength}: give fewer steps`);
const perStream = Math.ceil((WARM_UP + steps) / BLOCK_TOKENS);
const gpu = await gpuFrom(gpuName);
const backend = await createWebGpuBackend(spec, files.weights, { blockCount: streams * perStream, gpu });
const sampling = validateSampling({ temperature: 0 }, { vocabSize, freshSeed: seedFrom(1n) });
if (!sampling.ok) giveUp('greedy sampling was refused');
const { parameters } = sampling;

const pauses: number[] = [];
const collector = new PerformanceObserver((list) => {
  for (const { duration } of list.getEntries()) pauses.push(duration);
});

async function step(position: number): Promise<number> {
  const sequences = Array.from({ length: streams }, (_, stream): BatchSequence => {
    const held = Math.floor(position / BLOCK_TOKENS) + 1;
    const blocks = Array.from({ length: held }, (_, block) => stream * perStream + block);
    return { tokens: [(stream + position) % vocabSize], start: position, blocks, wantLogits: 'last' };
  });
  const rows = sequences.map((): SampleRow => ({ parameters, position, choice: 0, forbidden: [] }));
  const began = performance.now();
  await backend.step(buildBatch(sequences), rows);
  return performance.now() - began;
}

for (let position = 0; position < WARM_UP; position++) await step(position);
collector.observe({ entryTypes: ['gc'] });
const times: number[] = [];
for (let position = WARM_UP; position < WARM_UP + steps; position++) times.push(await step(position));
// The last entries arrive in a later turn.
await new Promise((resolve) => setTimeout(resolve, 10));
collector.disconnect();
backend.close();
gpu.close();

const sorted = times.toSorted((a, b) => a - b);
const at = (share: number) => sorted[Math.min(steps - 1, Math.floor(share * steps))] as number;
const [medianMs, p99Ms, maxMs] = [at(0.5), at(0.99), sorted.at(-1) as number];
const gcMs = pauses.reduce((sum, ms) => sum + ms, 0);
print(`${files.path} on ${gpu.info.name}, ${streams} streams, ${steps} steps`);
print(`median ${medianMs.toFixed(2)} ms, p99 ${p99Ms.toFixed(2)} ms, slowest ${maxMs.toFixed(2)} ms`);
print(`steps above twice the median: ${times.filter((ms) => ms > 2 * medianMs).length}`);
print(
  `garbage collections: ${pauses.length}, ${gcMs.toFixed(0)} ms, longest ${Math.max(0, ...pauses).toFixed(1)} ms`,
);
report('gpu-steps', {
  gpu: gpu.info.name,
  model: files.path,
  streams,
  steps,
  medianMs,
  p99Ms,
  maxMs,
  collections: pauses.length,
  gcMs,
});
