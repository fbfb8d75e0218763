// `npm run bench -- images [MS] [PICTURES] [ISA]`: what pictures cost, and whom. A model of the shape of SmolVLM 256M with random weights answers 16 streams of text
// alone, then next to pictures of 13 views one after the other; then a question about one picture, and another question about it. Ends in
// one JSON line.

import { availableParallelism } from 'node:os';
import { dummyModel } from '#src/bench/dummy-model.ts';
import { createCpuBackend } from '#src/compute/cpu/backend.ts';
import { Engine } from '#src/engine/engine.ts';
import type { EngineRequest } from '#src/engine/request.ts';
import { unloadedError } from '#src/engine/request-errors.ts';
import type { StepReport } from '#src/engine/step-report.ts';
import { buildSpec } from '#src/model/build-spec.ts';
import type { ImageInput, VisionSpec } from '#src/model/vision/vision-spec.ts';
import { validateSampling } from '#src/sampling/parameters.ts';
import { seedFrom } from '#src/sampling/random.ts';
import type { WeightSource } from '#src/weights/weight-source.ts';
import { countFrom, kernelsFrom, openAddon, print, report } from './harness.ts';
import { RandomWeights, randomLinear, towerSteps } from './random-tower.ts';

const [targetText = '100', picturesText = '4', isaText] = process.argv.slice(2);
const targetStepMs = countFrom(targetText, 'milliseconds');
const pictures = countFrom(picturesText, 'pictures');
const addon = openAddon();
const isa = kernelsFrom(isaText, addon);
const threads = availableParallelism();

const STREAMS = 16;
const ALONE_TOKENS = 100;
const SIDE = 512;
/** The whole picture, and three rows of four. */
const VIEWS = 13;
/** Cells of a view's side that become one feature. */
const MERGED = 4;
const shape = {
  name: 'tower',
  side: SIDE,
  patch: 16,
  hidden: 768,
  ffn: 3072,
  heads: 12,
  layers: 12,
  gated: false,
};
const featuresOfView = (SIDE / shape.patch / MERGED) ** 2;

const files = dummyModel('smollm2-135m', 'Q8_0');
const text = buildSpec(files);
const towerWeights = new RandomWeights('F16');
const vision: VisionSpec = {
  preprocessing: {
    views: { kind: 'fixed', width: SIDE, height: SIDE },
    filter: 'lanczos',
    mean: [0.5, 0.5, 0.5],
    deviation: [0.5, 0.5, 0.5],
  },
  tower: {
    steps: [
      ...towerSteps(shape, shape.layers, towerWeights),
      { kind: 'merge', size: MERGED, order: 'cells' },
      {
        kind: 'linear',
        linear: randomLinear(towerWeights, 'connector', text.hiddenSize, MERGED ** 2 * shape.hidden),
      },
    ],
    join: { kind: 'sequence' },
  },
  prompt: { marker: '', text: '', layout: { kind: 'run', before: '', after: '' }, reserved: [] },
};

/** Those of the text model and of the tower. */
const weights: WeightSource = {
  tensors: new Map([...files.weights.tensors, ...towerWeights.tensors]),
  readRows(name, first, count, into) {
    const source = towerWeights.tensors.has(name) ? towerWeights : files.weights;
    return source.readRows(name, first, count, into);
  },
  close() {
    files.weights.close();
  },
};

/** Those of the same seed are one. Made before anything is measured: it takes longer than a step. */
const inputs = new Map<number, ImageInput>();

function picture(seed: number): ImageInput {
  const made = inputs.get(seed);
  if (made !== undefined) return made;
  const view = () => {
    const rgb = new Uint8Array(3 * SIDE ** 2);
    for (let at = 0; at < rgb.length; at++) rgb[at] = at * (37 + 2 * seed);
    return { width: SIDE, height: SIDE, rgb };
  };
  const input: ImageInput = {
    views: Array.from({ length: VIEWS }, view),
    tiles: { rows: 3, columns: 4, picture: { width: 4 * SIDE, height: 3 * SIDE } },
  };
  inputs.set(seed, input);
  return input;
}

let requests = 0;

function requestFor(words: readonly number[], maxTokens: number, seed?: number): EngineRequest {
  const validation = validateSampling(
    { temperature: 0, maxTokens, ignoreEos: true },
    { vocabSize: text.vocabSize, freshSeed: seedFrom(1n) },
  );
  if (!validation.ok) throw new Error(`${validation.parameter} ${validation.problem}`);
  const shown = seed === undefined ? 0 : VIEWS * featuresOfView;
  // A picture stands before the words.
  const places = Int32Array.from({ length: shown }, (_, place) => place);
  return {
    id: `request-${requests++}`,
    prompt: Int32Array.from([...places.map(() => 7), ...words]),
    parameters: validation.parameters,
    priority: 1,
    salt: '',
    account: `account-${requests % 32}`,
    enqueuedMs: Date.now(),
    ...(seed === undefined
      ? {}
      : { images: { images: [{ key: `picture ${seed}`, input: picture(seed), places }] } }),
  };
}

const wordsOf = (count: number, seed: number) =>
  Array.from({ length: count }, (_, place) => (place * 7919 + seed * 104_729) % text.vocabSize);

/** When tokens of each request came, from its submission on. */
const times = new Map<string, number[]>();
const waiting = new Map<string, () => void>();

function hear({ events }: StepReport): void {
  const now = performance.now();
  for (const event of events) {
    if (event.kind === 'token') times.get(event.id)?.push(now);
    if (event.kind === 'finish') waiting.get(event.id)?.();
  }
}

const backend = await createCpuBackend(addon, { ...text, vision }, weights, {
  blockCount: 2000,
  threads,
  isa,
});
const engine = new Engine(
  backend,
  {
    blockCount: 2000,
    budget: { kind: 'adaptive', targetStepMs, maxStepTokens: 2048 },
    speculation: false,
    vision: { hiddenSize: text.hiddenSize, deepstackLayers: 0 },
    vocabSize: text.vocabSize,
    contextLength: text.contextLength,
    endIds: [],
  },
  hear,
);
const running = engine.run();

/** Milliseconds to each of its tokens. */
async function ask(request: EngineRequest): Promise<readonly number[]> {
  const began = performance.now();
  times.set(request.id, []);
  const done = new Promise<void>((resolve) => waiting.set(request.id, resolve));
  engine.submit(request);
  await done;
  return (times.get(request.id) ?? []).map((ms) => ms - began);
}

const quantile = (sorted: readonly number[], share: number) =>
  sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] as number;

function gapsOf(answers: readonly (readonly number[])[]) {
  const gaps = answers.flatMap((ms) => ms.slice(2).map((at, index) => at - (ms[index + 1] as number)));
  gaps.sort((one, other) => one - other);
  return { p50Ms: quantile(gaps, 0.5), p99Ms: quantile(gaps, 0.99), mostMs: gaps.at(-1) as number };
}

/** Streams that go on until they are enough. */
async function streams(isEnough: () => boolean) {
  const one = async (stream: number) => {
    const answers: (readonly number[])[] = [];
    do answers.push(await ask(requestFor(wordsOf(20, stream), ALONE_TOKENS)));
    while (!isEnough());
    return answers;
  };
  return gapsOf((await Promise.all(Array.from({ length: STREAMS }, (_, stream) => one(stream)))).flat());
}

const first = (ms: readonly number[]) => ms[0] as number;

for (const seed of [90, 100, ...Array(pictures).keys()]) picture(seed);
// Learns what steps and pieces take.
await Promise.all([ask(requestFor(wordsOf(5, 90), 8, 90)), streams(() => true)]);
const alone = await streams(() => true);
let seen = 0;
const looking = (async () => {
  const firstMs: number[] = [];
  for (; seen < pictures; seen++) firstMs.push(first(await ask(requestFor(wordsOf(12, seen), 4, seen))));
  return firstMs.sort((one, other) => one - other);
})();
const besides = await streams(() => seen >= pictures);
const pictureMs = quantile(await looking, 0.5);
const firstMs = first(await ask(requestFor(wordsOf(12, 100), 4, 100)));
const secondMs = first(await ask(requestFor(wordsOf(12, 101), 4, 100)));
await engine.drain();
engine.end(unloadedError);
await running;
backend.close();

const tell = (name: string, { p50Ms, p99Ms, mostMs }: typeof alone) =>
  print(
    `${name}: between tokens ${p50Ms.toFixed(1)} ms, p99 ${p99Ms.toFixed(1)}, at most ${mostMs.toFixed(1)}`,
  );
print(
  `${isa} kernels, ${threads} threads; steps of ${targetStepMs} ms; pictures of ${VIEWS * featuresOfView} tokens`,
);
tell(`${STREAMS} streams`, alone);
tell('next to pictures', besides);
print(`first token about a picture: ${pictureMs.toFixed(0)} ms next to streams, ${firstMs.toFixed(0)} alone`);
print(`a second question about it: ${secondMs.toFixed(0)} ms, ${((100 * secondMs) / firstMs).toFixed(1)} %`);
report('images', { isa, threads, targetStepMs, alone, besides, pictureMs, firstMs, secondMs });
