// `npm run bench -- cuda-steps SHAPE:TYPE[,…] KERNELS [streams] [layers] [context] [profile]`: how long steps take on an NVIDIA GPU, of
// models of these shapes with random weights: decoding after a context of 128 tokens or as many as are given, and a prompt of 4,000 in
// pieces of 2,048. KERNELS is a compiled file, or - for what belongs to the GPU; `profile` lists what each kernel of a step takes.
// Ends in one JSON line.

import { readFileSync } from 'node:fs';
import { dummyModel } from '#src/bench/dummy-model.ts';
import { type Distribution, distributionOf } from '#src/bench/statistics.ts';
import { type Backend, BLOCK_TOKENS } from '#src/compute/backend.ts';
import { type BatchSequence, buildBatch } from '#src/compute/batch.ts';
import { createCudaBackend } from '#src/compute/cuda/backend.ts';
import { buildSpec } from '#src/model/build-spec.ts';
import { validateSampling } from '#src/sampling/parameters.ts';
import { seedFrom } from '#src/sampling/random.ts';
import type { SampleRow } from '#src/sampling/sample-row.ts';
import { countFrom, dummyFrom, giveUp, openAddon, print, report } from './harness.ts';

const DEFAULT_CONTEXT = 128;
/** Those before the ones that count are recorded and warm up. */
const WARM_UP = 5;
const STEPS = 200;
const PROMPT = 4000;
const PIECE = 2048;
/** Sequences of one block that fill the KV cache in a step. */
const FILLED_AT_ONCE = PIECE / BLOCK_TOKENS;

const [models = '', kernelFile = '', streamsText = '1,8,32,64', layersText, ...words] = process.argv.slice(2);
const profiled = words.includes('profile');
const contextText = words.find((word) => word !== 'profile');
const context = contextText === undefined ? DEFAULT_CONTEXT : countFrom(contextText, 'tokens of context');
const blocksPerStream = Math.ceil((context + WARM_UP + STEPS) / BLOCK_TOKENS);
const streamCounts = streamsText.split(',').map((text) => countFrom(text, 'streams'));
const addon = openAddon();
const given = kernelFile === '-' ? {} : { kernels: new Uint8Array(readFileSync(kernelFile)) };
const layers = layersText === undefined || layersText === 'all' ? undefined : countFrom(layersText, 'layers');
const results: object[] = [];

for (const { shape, type } of models.split(',').map(dummyFrom)) {
  const files = dummyModel(shape, type, layers);
  const spec = buildSpec(files);
  if (context + WARM_UP + STEPS > spec.contextLength) {
    giveUp(`${files.path} has a context of ${spec.contextLength} tokens`);
  }
  const mostStreams = Math.max(...streamCounts);
  const blockCount = Math.max(blocksPerStream * mostStreams, Math.ceil(PROMPT / BLOCK_TOKENS));
  const began = performance.now();
  const backend = await createCudaBackend(addon, spec, files.weights, {
    blockCount,
    stateSlots: Math.max(mostStreams, FILLED_AT_ONCE),
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
  const sequence = (
    stream: number,
    start: number,
    count: number,
    firstBlock = stream * blocksPerStream,
  ): BatchSequence => ({
    tokens: Array.from({ length: count }, (_, at) => (stream * 7919 + (start + at) * 31) % spec.vocabSize),
    start,
    blocks: Array.from(
      { length: Math.ceil((start + count) / BLOCK_TOKENS) },
      (_, block) => firstBlock + block,
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
  // Every block by a text of its own, 32 tokens long: keys and values of all streams lie in memory as after prompts, and the time
  // that this takes does not grow with the square of the context.
  for (let first = 0; first < blockCount; first += FILLED_AT_ONCE) {
    const count = Math.min(FILLED_AT_ONCE, blockCount - first);
    await step(Array.from({ length: count }, (_, at) => sequence(at, 0, BLOCK_TOKENS, first + at)));
  }
  for (const streams of streamCounts) {
    const all = Array.from({ length: streams }, (_, stream) => stream);
    const times: number[] = [];
    for (let position = context; position < context + WARM_UP + STEPS; position++) {
      times.push(await step(all.map((stream) => sequence(stream, position, 1))));
    }
    const { mean, p50, p99 } = distributionOf(times.slice(WARM_UP)) as Distribution;
    const rate = (streams * 1000) / mean;
    print(
      `  ${streams} streams after ${context} tokens: ${rate.toFixed(0)} tokens/s, mean ${mean.toFixed(3)} ms, median ${p50.toFixed(3)}, p99 ${p99.toFixed(3)} (${(p99 / p50).toFixed(2)} times the median)`,
    );
    results.push({ model: files.path, context, streams, rate, mean, median: p50, p99, p99Ratio: p99 / p50 });
    if (profiled) listKernels(all.map((stream) => sequence(stream, context + WARM_UP + STEPS - 1, 1)));
  }
  for (let round = 0; round < 2; round++) {
    let ms = 0;
    for (let start = 0; start < PROMPT; start += PIECE) {
      ms += await step([sequence(0, start, Math.min(PIECE, PROMPT - start))]);
    }
    print(`  prompt of ${PROMPT}: ${((PROMPT / ms) * 1000).toFixed(0)} tokens/s, ${ms.toFixed(0)} ms`);
    results.push({ model: files.path, prompt: PROMPT, ms });
  }
  if (profiled) listKernels([sequence(0, PIECE, PROMPT - PIECE)]);
  backend.close();
}
report('cuda-steps', { results });
