// `npm run bench -- cuda-steps SHAPE:TYPE[,…] KERNELS [streams] [layers] [profile]`: how long steps take on an NVIDIA GPU, of models of
// these shapes with random weights: decoding at a context of about 200 tokens, and a prompt of 4,000 in pieces of 2,048. KERNELS is
// a compiled file, or - for what belongs to the GPU; `profile` lists what each kernel of a step takes. Ends in one JSON line.

import { readFileSync } from 'node:fs';
import { dummyModel } from '#src/bench/dummy-model.ts';
import type { Backend } from '#src/compute/backend.ts';
import { type BatchSequence, buildBatch } from '#src/compute/batch.ts';
import { createCudaBackend } from '#src/compute/cuda/backend.ts';
import { buildSpec } from '#src/model/build-spec.ts';
import { validateSampling } from '#src/sampling/parameters.ts';
import { seedFrom } from '#src/sampling/random.ts';
import type { SampleRow } from '#src/sampling/sample-row.ts';
import { countFrom, dummyFrom, giveUp, openAddon, print, report } from './harness.ts';

const BLOCKS_PER_STREAM = 8;
const HISTORY = 128;
const STEPS = 100;
const PROMPT = 4000;
const PIECE = 2048;

const [models = '', kernelFile = '', streamsText = '1,8,32,64', layersText, profiles] = process.argv.slice(2);
const streamCounts = streamsText.split(',').map((text) => countFrom(text, 'streams'));
const addon = openAddon();
const given = kernelFile === '-' ? {} : { kernels: new Uint8Array(readFileSync(kernelFile)) };
const layers = layersText === undefined || layersText === 'all' ? undefined : countFrom(layersText, 'layers');
const results: object[] = [];

for (const { shape, type } of models.split(',').map(dummyFrom)) {
  const files = dummyModel(shape, type, layers);
  const spec = buildSpec(files);
  const blockCount = Math.max(BLOCKS_PER_STREAM * Math.max(...streamCounts), Math.ceil(PROMPT / 32));
  const began = performance.now();
  const backend = await createCudaBackend(addon, spec, files.weights, {
    blockCount,
    stateSlots: Math.max(...streamCounts),
    ...given,
  });
  const stepper: Backend = backend;
  print(`${files.path}: loaded in ${((performance.now() - began) / 1000).toFixed(1)} s`);
  const sampling = validateSampling(
    { temperature: 0 },
    { vocabSize: spec.vocabSize, freshSeed: seedFrom(1n) },
  );
  if (!sampling.ok) giveUp('greedy sampling was refused');
  const { parameters } = sampling;
  const sequence = (stream: number, start: number, count: number): BatchSequence => ({
    tokens: Array.from({ length: count }, (_, at) => (stream * 7919 + (start + at) * 31) % spec.vocabSize),
    start,
    blocks: Array.from(
      { length: Math.ceil((start + count) / 32) },
      (_, block) => stream * BLOCKS_PER_STREAM + block,
    ),
    wantLogits: 'last',
    ...(spec.recurrentStates.length === 0
      ? {}
      : { state: { from: start === 0 ? undefined : stream, kept: [{ after: count, slot: stream }] } }),
  });
  const step = async (sequences: readonly BatchSequence[]) => {
    const rows = sequences.map(
      ({ start }): SampleRow => ({ parameters, position: start, choice: 0, forbidden: [] }),
    );
    const started = performance.now();
    const { logits } = await stepper.step(buildBatch(sequences), rows);
    const ms = performance.now() - started;
    if (logits.some(Number.isNaN)) giveUp('logits are no numbers');
    return ms;
  };
  const listKernels = (sequences: readonly BatchSequence[]) => {
    const times = backend.profile(buildBatch(sequences)).toSorted((a, b) => b.microseconds - a.microseconds);
    for (const { kernel, launches, microseconds } of times) {
      print(
        `    ${kernel.padEnd(32)} ${String(launches).padStart(4)} x ${(microseconds / launches).toFixed(1).padStart(7)} µs = ${microseconds.toFixed(0).padStart(6)} µs`,
      );
    }
  };
  for (const streams of streamCounts) {
    const all = Array.from({ length: streams }, (_, stream) => stream);
    for (const stream of all) await step([sequence(stream, 0, HISTORY)]);
    const times: number[] = [];
    for (let position = HISTORY; position < HISTORY + STEPS; position++) {
      times.push(await step(all.map((stream) => sequence(stream, position, 1))));
    }
    const sorted = times.slice(5).toSorted((a, b) => a - b);
    const mean = sorted.reduce((sum, ms) => sum + ms, 0) / sorted.length;
    const [median, p99] = [sorted[Math.floor(sorted.length / 2)] as number, sorted.at(-2) as number];
    const rate = (streams * 1000) / mean;
    print(
      `  ${streams} streams: ${rate.toFixed(0)} tokens/s, mean ${mean.toFixed(3)} ms, median ${median.toFixed(3)}, p99 ${p99.toFixed(3)}`,
    );
    results.push({ model: files.path, streams, rate, mean, median, p99 });
    if (profiles !== undefined) listKernels(all.map((stream) => sequence(stream, HISTORY + STEPS - 1, 1)));
  }
  for (let round = 0; round < 2; round++) {
    let ms = 0;
    for (let start = 0; start < PROMPT; start += PIECE) {
      ms += await step([sequence(0, start, Math.min(PIECE, PROMPT - start))]);
    }
    print(`  prompt of ${PROMPT}: ${((PROMPT / ms) * 1000).toFixed(0)} tokens/s, ${ms.toFixed(0)} ms`);
    results.push({ model: files.path, prompt: PROMPT, ms });
  }
  if (profiles !== undefined) listKernels([sequence(0, PIECE, PROMPT - PIECE)]);
  backend.close();
}
report('cuda-steps', { results });
