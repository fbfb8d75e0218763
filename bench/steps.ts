// `npm run bench -- steps SHAPE:TYPE[,…] [streams] [kernels]`: how long one step of a model of that shape takes, for several
// streams that decode and for a prompt, beside the machine's read bandwidth; with several models or kernel tables, in turns.
// Ends in one JSON line.

import { availableParallelism } from 'node:os';
import { dummyModel } from '#src/bench/dummy-model.ts';
import type { Backend } from '#src/compute/backend.ts';
import { type BatchSequence, buildBatch } from '#src/compute/batch.ts';
import { createCpuBackend } from '#src/compute/cpu/backend.ts';
import { fileMatrixBytes, weightBytes } from '#src/compute/memory.ts';
import { buildSpec } from '#src/model/build-spec.ts';
import { countFrom, dummyFrom, fillBlocks, kernelsFrom, openAddon, print, report } from './harness.ts';

const REPEATS = 9;
const HISTORY = 200;
const BLOCKS_PER_STREAM = 8;
const PROMPT_TOKENS = 256;
const PROMPT_REPEATS = 3;

const [models = '', streamsText = '1,8,16', kernelsText] = process.argv.slice(2);
const wanted = models.split(',').map(dummyFrom);
const streams = streamsText.split(',').map((text) => countFrom(text, 'streams'));
const addon = openAddon();
const tables = (kernelsText?.split(',') ?? [undefined]).map((name) => kernelsFrom(name, addon));

const stream = (index: number, tokens: readonly number[], start: number): BatchSequence => ({
  tokens,
  start,
  blocks: Array.from({ length: BLOCKS_PER_STREAM }, (_, block) => index * BLOCKS_PER_STREAM + block),
  wantLogits: 'last',
});

interface Contender {
  readonly model: string;
  readonly kernels: string;
  readonly backend: Backend;
}

interface StepTimes {
  readonly model: string;
  readonly kernels: string;
  readonly bestMs: number;
  readonly medianMs: number;
}

/** In turns, so that a machine that slows down does so for all. */
async function time(
  contenders: readonly Contender[],
  sequences: readonly BatchSequence[],
  repeats: number,
): Promise<readonly StepTimes[]> {
  const trials = contenders.map((contender) => ({ ...contender, times: [] as number[] }));
  for (let trial = 0; trial < repeats; trial++) {
    for (const { backend, times } of trials) {
      const batch = buildBatch(sequences);
      const started = performance.now();
      await backend.step(batch);
      times.push(performance.now() - started);
    }
  }
  return trials.map(({ model, kernels, times }) => {
    times.sort((a, b) => a - b);
    return { model, kernels, bestMs: times[0] as number, medianMs: times[Math.floor(repeats / 2)] as number };
  });
}

const threads = availableParallelism();
const bandwidth = addon.readBandwidth(threads, 1024);
const blockCount = BLOCKS_PER_STREAM * Math.max(...streams);
const contenders: Contender[] = [];
for (const { shape, type } of wanted) {
  const files = dummyModel(shape, type);
  const [spec, model] = [buildSpec(files), files.path];
  const bytes = weightBytes(spec, files.weights, fileMatrixBytes);
  print(
    `${model}, ${(bytes / 1e9).toFixed(2)} GB, ${threads} threads, read bandwidth ${(bandwidth / 1e9).toFixed(1)} GB/s`,
  );
  for (const kernels of tables) {
    const options = { blockCount, threads, isa: kernels };
    const backend = await createCpuBackend(addon, spec, files.weights, options);
    contenders.push({ model, kernels, backend });
  }
}

for (const { backend } of contenders) await fillBlocks(backend);

const decode = [];
for (const count of streams) {
  const sequences = Array.from({ length: count }, (_, index) => stream(index, [100 + index], HISTORY));
  for (const { model, kernels, bestMs, medianMs } of await time(contenders, sequences, REPEATS)) {
    const tokensPerSecond = (count * 1000) / medianMs;
    decode.push({ model, kernels, streams: count, bestMs, medianMs, tokensPerSecond });
    print(
      `${model}, ${kernels}, ${String(count).padStart(3)} streams: median ${medianMs.toFixed(1)} ms, ${tokensPerSecond.toFixed(1)} tokens/s; best ${bestMs.toFixed(1)} ms`,
    );
  }
}
const promptTokens = Array.from({ length: PROMPT_TOKENS }, (_, token) => token);
const prompt = [];
const promptTimes = await time(contenders, [stream(0, promptTokens, 0)], PROMPT_REPEATS);
for (const { model, kernels, medianMs } of promptTimes) {
  const tokensPerSecond = (PROMPT_TOKENS * 1000) / medianMs;
  prompt.push({ model, kernels, tokensPerSecond });
  print(`${model}, ${kernels}, prompt of ${PROMPT_TOKENS}: ${tokensPerSecond.toFixed(0)} tokens/s`);
}
for (const { backend } of contenders) backend.close();
report('steps', { threads, bandwidth, decode, prompt });
