// `npm run bench:steps -- SHAPE:TYPE [streams]`: how long one step of a model of that shape takes, for several
// streams that decode and for a prompt, beside the machine's read bandwidth. Ends in one JSON line.

import { availableParallelism } from 'node:os';
import type { Backend } from '../compute/backend.ts';
import { type BatchSequence, buildBatch } from '../compute/batch.ts';
import { createCpuBackend } from '../compute/cpu/backend.ts';
import { loadAddon } from '../compute/cpu/binding.ts';
import { fileMatrixBytes, weightBytes } from '../compute/memory.ts';
import { buildSpec } from '../model/build-spec.ts';
import { dummyModel, parseDummy } from './dummy-model.ts';
import { dummyShapes } from './dummy-shapes.ts';
import { dummyTypes } from './dummy-weights.ts';

const REPEATS = 9;
/** Tokens that each stream has behind it. */
const HISTORY = 200;
const BLOCKS_PER_STREAM = 8;
const PROMPT_TOKENS = 256;

const print = (line: string) => process.stdout.write(`${line}\n`);

function give(line: string): never {
  process.stderr.write(`${line}\n`);
  process.exit(1);
}

const wanted = parseDummy(process.argv[2] ?? '');
if (wanted === undefined) {
  give(`give SHAPE:TYPE, of ${Object.keys(dummyShapes).join(', ')} and ${dummyTypes.join(', ')}`);
}
const streams = (process.argv[3] ?? '1,8,16').split(',').map(Number);
if (!streams.every((count) => Number.isInteger(count) && count > 0)) give('give streams such as 1,8,16');
const load = loadAddon();
if (!load.available) give(load.reason);

const stream = (index: number, tokens: readonly number[], start: number): BatchSequence => ({
  tokens,
  start,
  blocks: Array.from({ length: BLOCKS_PER_STREAM }, (_, block) => index * BLOCKS_PER_STREAM + block),
  wantLogits: 'last',
});

async function time(backend: Backend, sequences: readonly BatchSequence[], repeats: number) {
  const times: number[] = [];
  for (let trial = 0; trial < repeats; trial++) {
    const batch = buildBatch(sequences);
    const started = performance.now();
    await backend.step(batch);
    times.push(performance.now() - started);
  }
  times.sort((a, b) => a - b);
  return { bestMs: times[0] as number, medianMs: times[Math.floor(repeats / 2)] as number };
}

const threads = availableParallelism();
const files = dummyModel(wanted.shape, wanted.type);
const spec = buildSpec(files);
const bandwidth = load.addon.readBandwidth(threads, 1024);
const blockCount = BLOCKS_PER_STREAM * Math.max(...streams);
const backend = await createCpuBackend(load.addon, spec, files.weights, { blockCount, threads });
const bytes = weightBytes(spec, files.weights, fileMatrixBytes);
print(
  `${files.path}, ${(bytes / 1e9).toFixed(2)} GB, ${threads} threads, read bandwidth ${(bandwidth / 1e9).toFixed(1)} GB/s`,
);

// What a stream has behind it, so that attention reads memory that was written.
for (let index = 0; index < Math.max(...streams); index++) {
  const history = Array.from({ length: HISTORY }, (_, place) => (place * 7919 + index) % spec.vocabSize);
  await backend.step(buildBatch([{ ...stream(index, history, 0), wantLogits: 'none' }]));
}

const decode = [];
for (const count of streams) {
  const sequences = Array.from({ length: count }, (_, index) => stream(index, [100 + index], HISTORY));
  const { bestMs, medianMs } = await time(backend, sequences, REPEATS);
  decode.push({ streams: count, bestMs, medianMs, tokensPerSecond: (count * 1000) / medianMs });
  print(
    `${String(count).padStart(3)} streams: median ${medianMs.toFixed(1)} ms, ${((count * 1000) / medianMs).toFixed(1)} tokens/s; best ${bestMs.toFixed(1)} ms`,
  );
}
const prompt = Array.from({ length: PROMPT_TOKENS }, (_, token) => token);
const prefill = await time(backend, [stream(0, prompt, 0)], 3);
const promptTokensPerSecond = (PROMPT_TOKENS * 1000) / prefill.medianMs;
print(`prompt of ${PROMPT_TOKENS}: ${promptTokensPerSecond.toFixed(0)} tokens/s`);
backend.close();
print(
  JSON.stringify({
    benchmark: 'steps',
    model: files.path,
    threads,
    bandwidth,
    decode,
    promptTokensPerSecond,
  }),
);
