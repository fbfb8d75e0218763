// `npm run bench -- context SHAPE:TYPE [layers] [kernels]`: the cost of a long history. Decoding after 32 K tokens: how fast
// the KV cache is read, next to the machine's read bandwidth. A prompt in chunks: how a chunk's time grows with the tokens
// before it.

import { availableParallelism } from 'node:os';
import { dummyModel } from '#src/bench/dummy-model.ts';
import { median } from '#src/bench/statistics.ts';
import { type Backend, BLOCK_TOKENS, type KvType, kvTypes } from '#src/compute/backend.ts';
import { type BatchSequence, buildBatch } from '#src/compute/batch.ts';
import { createCpuBackend } from '#src/compute/cpu/backend.ts';
import { sizesOf } from '#src/compute/memory.ts';
import { buildSpec } from '#src/model/build-spec.ts';
import {
  countFrom,
  dummyFrom,
  fillBlocks,
  giveUp,
  kernelsFrom,
  openAddon,
  print,
  report,
} from './harness.ts';

const HISTORY = 32_768;
const STREAMS = [1, 2, 8];
const CHUNK = 128;
const CHUNK_STARTS = [0, 2048, 4096, 8192, 16_384, HISTORY - CHUNK];
const REPEATS = 9;
const PROMPT_REPEATS = 3;
/** More than the largest caches hold. */
const BANDWIDTH_MEGABYTES = 1024;
/** Few, so that eight streams fit most machines; every layer costs the same. */
const LAYERS = 2;

const [model = 'llama-3.2-1b:q4_0', layersText = `${LAYERS}`, kernelsText] = process.argv.slice(2);
const wanted = dummyFrom(model);
const layers = countFrom(layersText, 'layers');
const addon = openAddon();
const isa = kernelsFrom(kernelsText, addon);

const threads = availableParallelism();
const files = dummyModel(wanted.shape, wanted.type, layers);
const spec = buildSpec(files);
if (spec.contextLength <= HISTORY)
  giveUp(`${model} has a context of ${spec.contextLength}: give a shape with more`);
const BLOCKS_PER_STREAM = HISTORY / BLOCK_TOKENS + 1;
const blockCount = BLOCKS_PER_STREAM * Math.max(...STREAMS);

function stream(index: number, start: number, count: number): BatchSequence {
  return {
    tokens: Array.from({ length: count }, (_, place) => (place * 7919 + index) % spec.vocabSize),
    start,
    blocks: Array.from({ length: BLOCKS_PER_STREAM }, (_, block) => index * BLOCKS_PER_STREAM + block),
    wantLogits: 'none',
  };
}

const decoding = (streams: number, start: number) =>
  Array.from({ length: streams }, (_, index) => stream(index, start, 1));

async function time(backend: Backend, sequences: readonly BatchSequence[]): Promise<number> {
  const batch = buildBatch(sequences);
  const started = performance.now();
  await backend.step(batch);
  return performance.now() - started;
}

/** Steps with and without a history, in turns: the difference is the reading of the KV cache. */
async function measureDecode(backend: Backend, kvType: KvType) {
  const results = [];
  for (const streams of STREAMS) {
    const long: number[] = [];
    const short: number[] = [];
    const shares: number[] = [];
    const bytes = (sizesOf('cpu').kvBlockBytes(spec, kvType) / BLOCK_TOKENS) * HISTORY * streams;
    for (let trial = 0; trial < REPEATS; trial++) {
      // Memory bandwidth varies: each trial measures its own.
      const bandwidth = addon.readBandwidth(threads, BANDWIDTH_MEGABYTES);
      short.push(await time(backend, decoding(streams, 0)));
      long.push(await time(backend, decoding(streams, HISTORY)));
      const seconds = ((long.at(-1) as number) - (short.at(-1) as number)) / 1000;
      shares.push(bytes / seconds / bandwidth);
    }
    const [ms, withoutMs, share] = [median(long), median(short), median(shares)];
    const bytesPerSecond = bytes / ((ms - withoutMs) / 1000);
    print(
      `${kvType}, ${streams} streams: step ${ms.toFixed(1)} ms, without history ${withoutMs.toFixed(1)}; ` +
        `KV at ${(bytesPerSecond / 1e9).toFixed(1)} GB/s, ${(share * 100).toFixed(0)} % of the read bandwidth`,
    );
    results.push({ kvType, streams, ms, withoutMs, bytes, bytesPerSecond, share });
  }
  return results;
}

async function measurePrompt(backend: Backend, kvType: KvType) {
  const chunks: { readonly start: number; readonly ms: number }[] = [];
  for (const start of CHUNK_STARTS) {
    const times: number[] = [];
    for (let trial = 0; trial < PROMPT_REPEATS; trial++)
      times.push(await time(backend, [stream(0, start, CHUNK)]));
    chunks.push({ start, ms: median(times) });
  }
  const mean = (of: (chunk: (typeof chunks)[number]) => number) =>
    chunks.reduce((sum, chunk) => sum + of(chunk), 0) / chunks.length;
  const startMean = mean(({ start }) => start);
  const slope =
    mean(({ start, ms }) => (start - startMean) * ms) / mean(({ start }) => (start - startMean) ** 2);
  const fixedMs = mean(({ ms }) => ms) - slope * startMean;
  const listed = chunks.map(({ start, ms }) => `${start}: ${ms.toFixed(0)}`).join(', ');
  print(`${kvType}, prompt in chunks of ${CHUNK}, ms by start: ${listed}`);
  print(
    `  a chunk takes ${fixedMs.toFixed(1)} ms and ${(slope * 1000).toFixed(2)} ms more for each 1,000 tokens before it`,
  );
  return { kvType, chunkTokens: CHUNK, chunks, fixedMs, msPerTokenBefore: slope };
}

print(`${files.path}, ${layers} layers, ${threads} threads, ${isa} kernels, ${HISTORY} tokens of history`);
const decode = [];
const prompt = [];
for (const kvType of kvTypes) {
  const backend = await createCpuBackend(addon, spec, files.weights, { blockCount, threads, kvType, isa });
  await fillBlocks(backend);
  decode.push(...(await measureDecode(backend, kvType)));
  prompt.push(await measurePrompt(backend, kvType));
  backend.close();
}
report('context', { model: files.path, layers, threads, kernels: isa, history: HISTORY, decode, prompt });
