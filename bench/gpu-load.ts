// `npm run bench -- gpu-load [SHAPE:TYPE [layers] [GPU]]`: what this process takes of the machine's memory while a model of that
// shape is loaded onto a GPU from a file, and afterwards. On a GPU with memory of its own weights should not be in it; where the
// GPU has the machine's, or a processor plays it, they should be there once. Ends in one JSON line.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { dummyModel } from '#src/bench/dummy-model.ts';
import { writeGguf } from '#src/bench/write-gguf.ts';
import { buildBatch } from '#src/compute/batch.ts';
import { sizesOf, weightBytes } from '#src/compute/memory.ts';
import { createWebGpuBackend } from '#src/compute/webgpu/backend.ts';
import { openSpec } from '#src/model/open-spec.ts';
import { countFrom, dummyFrom, gpuFrom, print, report } from './harness.ts';

const EVERY_MS = 20;
const BLOCKS = 64;

const [model = 'llama-3.2-1b:q8_0', layersText, gpuName] = process.argv.slice(2);
const wanted = dummyFrom(model);
const layers = layersText === undefined ? undefined : countFrom(layersText, 'layers');

const residentBytes = () => process.memoryUsage.rss();
const megabytes = (bytes: number) => Math.round(bytes / 1e6);

function countBuffers(device: GPUDevice): { bytes: number } {
  const created = { bytes: 0 };
  const createBuffer = device.createBuffer.bind(device);
  device.createBuffer = (descriptor) => {
    created.bytes += descriptor.size;
    return createBuffer(descriptor);
  };
  return created;
}

const folder = mkdtempSync(join(tmpdir(), 'chairlift-gpu-load-'));
const path = join(folder, 'model.gguf');
try {
  const fileBytes = await writeGguf(dummyModel(wanted.shape, wanted.type, layers), path);
  const gpu = await gpuFrom(gpuName);
  const created = countBuffers(gpu.device);
  const { spec, weights } = openSpec(path);
  const bytes = weightBytes(spec, weights, sizesOf('webgpu').matrixBytes);
  const before = residentBytes();
  let peak = before;
  const sampling = setInterval(() => {
    peak = Math.max(peak, residentBytes());
  }, EVERY_MS);
  const backend = await createWebGpuBackend(spec, weights, { blockCount: BLOCKS, gpu });
  weights.close();
  clearInterval(sampling);
  const loaded = residentBytes();
  const sequence = { tokens: [1, 2, 3], start: 0, blocks: [0], wantLogits: 'last' } as const;
  await backend.step(buildBatch([sequence]));
  await sleep(1000);
  const after = residentBytes();
  const results = {
    gpu: gpu.info.name,
    model,
    fileMb: megabytes(fileBytes),
    weightsMb: megabytes(bytes),
    buffersMb: megabytes(created.bytes),
    residentMb: {
      before: megabytes(before),
      peak: megabytes(peak),
      loaded: megabytes(loaded),
      after: megabytes(after),
    },
  };
  const { before: first, ...later } = results.residentMb;
  print(`${gpu.info.name}, ${model}: a file of ${results.fileMb} MB`);
  print(`on the GPU: ${results.weightsMb} MB of weights, ${results.buffersMb} MB with all else`);
  for (const [when, mb] of Object.entries(later)) print(`in this process, ${when}: ${mb - first} MB more`);
  backend.close();
  gpu.close();
  report('gpu-load', results);
} finally {
  rmSync(folder, { recursive: true });
}
process.exit(0);
