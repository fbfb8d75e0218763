// `npm run bench -- towers [TYPE] [LAYERS] [ISA or cuda]`: how long the CPU or an NVIDIA GPU takes to see, with random weights in the
// shapes of published vision towers; layers that are not run count as those that are. Ends in one JSON line.

import { availableParallelism } from 'node:os';
import type { Backend } from '#src/compute/backend.ts';
import { createCpuBackend } from '#src/compute/cpu/backend.ts';
import { createCudaBackend } from '#src/compute/cuda/backend.ts';
import { tableSpec } from '#src/model/leaves.ts';
import type { ModelSpec } from '#src/model/spec.ts';
import type { TowerSpec } from '#src/model/vision/vision-spec.ts';
import type { TensorType } from '#src/weights/tensor-type.ts';
import { countFrom, kernelsFrom, openAddon, print, report } from './harness.ts';
import { RandomWeights, type TowerShape, towerSteps } from './random-tower.ts';

const [type = 'F16', layersText = '3', isaText] = process.argv.slice(2);
const ran = countFrom(layersText, 'layers');
const addon = openAddon();
const onGpu = isaText === 'cuda';
const isa = onGpu ? 'cuda' : kernelsFrom(isaText, addon);
const threads = availableParallelism();

const shapes: readonly TowerShape[] = [
  {
    name: 'SigLIP so400m, 896 pixels',
    side: 896,
    patch: 14,
    hidden: 1152,
    ffn: 4304,
    heads: 16,
    layers: 27,
    gated: false,
  },
  {
    name: 'Qwen 2.5 VL, 1008 pixels',
    side: 1008,
    patch: 14,
    hidden: 1280,
    ffn: 3420,
    heads: 16,
    layers: 32,
    gated: true,
    window: { side: 8, wholeEvery: 8 },
  },
];

/** A text model of nothing around it. */
function modelWith(spec: TowerSpec, hiddenSize: number, weights: RandomWeights): ModelSpec {
  const embedding = tableSpec(weights.add('embedding', [32, hiddenSize], 'F16'), 32, hiddenSize);
  return {
    architecture: 'none',
    hiddenSize,
    vocabSize: 32,
    contextLength: 32,
    normEpsilon: 1e-6,
    embeddingScale: 1,
    ropes: [],
    caches: [],
    recurrentStates: [],
    embedding,
    layers: [],
    head: {
      leaf: 'linear',
      weight: { tensor: 'embedding', firstRow: 0, rows: 32 },
      columns: hiddenSize,
    },
    vision: {
      preprocessing: {
        views: { kind: 'fixed', width: 1, height: 1 },
        filter: 'bicubic',
        mean: [0.5, 0.5, 0.5],
        deviation: [0.5, 0.5, 0.5],
      },
      tower: spec,
      prompt: { marker: '', text: '', layout: { kind: 'run', before: '', after: '' }, reserved: [] },
    },
  };
}

/** A piece that waits between steps. */
const PIECE_WORK = onGpu ? 2e10 : 2e8;

async function measure(shape: TowerShape) {
  const weights = new RandomWeights(type as TensorType);
  const tower: TowerSpec = { steps: towerSteps(shape, ran, weights), join: { kind: 'sequence' } };
  const spec = modelWith(tower, shape.hidden, weights);
  const backend = onGpu
    ? await createCudaBackend(addon, spec, weights, { blockCount: 1 })
    : await createCpuBackend(addon, spec, weights, { blockCount: 1, threads, isa });
  // The first picture makes a GPU take memory, and its driver load kernels.
  if (onGpu) await look(backend, shape);
  const measured = await look(backend, shape);
  backend.close();
  return measured;
}

async function look(backend: Backend, shape: TowerShape) {
  const rgb = Uint8Array.from({ length: 3 * shape.side ** 2 }, (_, at) => (at * 37) & 0xff);
  const view = { width: shape.side, height: shape.side, rgb };
  const picture = { width: shape.side, height: shape.side };
  const run = backend.beginImage?.({ views: [view], tiles: { rows: 0, columns: 0, picture } });
  if (run === undefined) throw new Error('the backend does not see');
  const work = run.left;
  const pieces: number[] = [];
  const began = performance.now();
  const usedBefore = process.cpuUsage();
  while (run.features === undefined) {
    const start = performance.now();
    await run.advance(PIECE_WORK);
    pieces.push(performance.now() - start);
  }
  const milliseconds = performance.now() - began;
  const { user, system } = process.cpuUsage(usedBefore);
  run.close();
  pieces.sort((one, other) => one - other);
  const { name, layers } = shape;
  return {
    name,
    layers,
    cells: (shape.side / shape.patch) ** 2,
    gigamacsPerSecond: work / milliseconds / 1e6,
    // The same however busy the machine is.
    gigamacsPerCpuSecond: work / (user + system) / 1e3,
    secondsForAllLayers: ((milliseconds / 1e3) * layers) / ran,
    medianPieceMs: pieces[pieces.length >> 1] as number,
    longestPieceMs: pieces.at(-1) as number,
  };
}

print(
  `${isa} kernels, ${threads} threads, ${type}, ${ran} layers of each; pieces of ${PIECE_WORK / 1e6} million`,
);
const towers = [];
for (const shape of shapes) {
  const measured = await measure(shape);
  towers.push(measured);
  print(
    `${measured.name}: ${measured.cells} cells, ${measured.layers} layers in ${measured.secondsForAllLayers.toFixed(1)} s, ` +
      `${measured.gigamacsPerSecond.toFixed(1)} GMAC/s, ${measured.gigamacsPerCpuSecond.toFixed(1)} a second of a core; a piece takes ${measured.medianPieceMs.toFixed(1)} ms, ` +
      `at most ${measured.longestPieceMs.toFixed(1)}`,
  );
}
report('towers', { isa, threads, type, layersRun: ran, towers });
