// `npm run bench -- gpu-kernels [GPU [small|large [KERNELS]]]`: speed of the matrix kernels on a GPU, per format and number of rows, beside
// the GPU's own read bandwidth, and whether all kernels give the same bits. Ends in one JSON line.

import { randomFillSync } from 'node:crypto';
import { type Format, formats, panelWords } from '#src/compute/webgpu/format.ts';
import {
  canMultiply,
  multiplyKernel,
  multiplyThreads,
  shapeWords,
} from '#src/compute/webgpu/kernels/matmul.ts';
import { GpuMemory } from '#src/compute/webgpu/memory.ts';
import { Programs } from '#src/compute/webgpu/programs.ts';
import { gpuReadBandwidth } from '#src/compute/webgpu/read-bandwidth.ts';
import type { TensorType } from '#src/weights/tensor-type.ts';
import { gpuFrom, print, report } from './harness.ts';

const [name, size, only = '.'] = process.argv.slice(2);
const gpu = await gpuFrom(name === '-' ? undefined : name);
const { device, info } = gpu;
// A feed-forward matrix of an 8B model; a small one where a processor plays the GPU.
const small = size === 'small' || (info.software && size !== 'large');
const OUTPUTS = small ? 256 : 14336;
const INPUTS = small ? 512 : 4096;
/** Several matrices in turn, so that none stays in a cache. */
const MATRICES = small ? 1 : 6;
const PASSES = small ? 1 : 4;
const rowCounts = small ? [1, 3, 8, 16] : [1, 2, 4, 8, 16, 32, 64, 512];
const types: TensorType[] = small ? ['Q4_0', 'Q8_0', 'Q4_K', 'Q6_K', 'F16'] : ['Q4_0', 'Q8_0', 'Q4_K'];
const MOST_ROWS = 512;

const memory = new GpuMemory(device);
const programs = Programs.of(device);

interface Variant {
  readonly label: string;
  readonly text: string;
  readonly rows: number;
  readonly panels: number;
}

const threads = multiplyThreads(info.limits.workgroupThreads);

function variants(format: Format): Variant[] {
  return [1, 2, 4, 8].flatMap((rows) =>
    [1, 2, 4]
      .filter((panels) => canMultiply({ rows, panels, threads }, info.limits.workgroupBytes))
      .flatMap((panels) =>
        [1, 2, 4].map((ahead) => ({
          label: `rows ${rows} panels ${panels} ahead ${ahead}`,
          text: multiplyKernel({ format, rows, panels, ahead, threads }),
          rows,
          panels,
        })),
      ),
  );
}

async function time(encode: (pass: GPUComputePassEncoder) => void, dispatches: number): Promise<number> {
  const stamps = device.features.has('timestamp-query')
    ? device.createQuerySet({ type: 'timestamp', count: 2 })
    : undefined;
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass(
    stamps === undefined
      ? {}
      : { timestampWrites: { querySet: stamps, beginningOfPassWriteIndex: 0, endOfPassWriteIndex: 1 } },
  );
  encode(pass);
  pass.end();
  if (stamps === undefined) {
    const from = performance.now();
    device.queue.submit([encoder.finish()]);
    await device.queue.onSubmittedWorkDone();
    return ((performance.now() - from) * 1000) / dispatches;
  }
  // GPUBufferUsage: QUERY_RESOLVE and COPY_SRC, MAP_READ and COPY_DST
  const resolved = device.createBuffer({ size: 16, usage: 512 | 4 });
  const readback = device.createBuffer({ size: 16, usage: 1 | 8 });
  encoder.resolveQuerySet(stamps, 0, 2, resolved, 0);
  encoder.copyBufferToBuffer(resolved, 0, readback, 0, 16);
  device.queue.submit([encoder.finish()]);
  await readback.mapAsync(1);
  const [from, to] = new BigUint64Array(readback.getMappedRange()) as unknown as [bigint, bigint];
  const micros = Number(to - from) / 1000 / dispatches;
  for (const buffer of [resolved, readback]) buffer.destroy();
  stamps.destroy();
  return micros;
}

async function read(buffer: GPUBuffer, bytes: number): Promise<Uint32Array> {
  const readback = await memory.readback('read', bytes);
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(buffer, 0, readback, 0, bytes);
  device.queue.submit([encoder.finish()]);
  await readback.mapAsync(1);
  const words = new Uint32Array(readback.getMappedRange().slice(0));
  readback.destroy();
  return words;
}

async function random(label: string, words: number, limit = 0): Promise<GPUBuffer> {
  const content = new Uint32Array(words);
  if (limit === 0) randomFillSync(new Uint8Array(content.buffer));
  // Small halves, none of them infinite.
  else for (let i = 0; i < words; i++) content[i] = Math.floor(Math.random() * 0x400) * 0x10001 + 0x14001800;
  return memory.filled(label, content);
}

const bandwidth = await gpuReadBandwidth(name === '-' ? undefined : name);
print(
  `${info.name}: reads ${(bandwidth / 1e9).toFixed(0)} GB/s; matrix ${OUTPUTS} x ${INPUTS}, ${MATRICES} in turn`,
);

const results = [];
const nothing = await memory.storage('nothing', 16);
const output = await memory.storage('output', MOST_ROWS * OUTPUTS * 4);
const inputs = await random('inputs', (MOST_ROWS * INPUTS) / 4);
const sides = await memory.filled('sides', sideWords());

function sideWords(): Uint32Array<ArrayBuffer> {
  const words = new Uint32Array((MOST_ROWS * INPUTS) / 16);
  const floats = new Float32Array(words.buffer);
  for (let i = 0; i < words.length; i += 2) {
    floats[i] = Math.random() * 0.01;
    words[i + 1] = Math.floor(Math.random() * 2000);
  }
  return words;
}

for (const type of types) {
  const format = formats[type];
  const words = panelWords(format, INPUTS);
  const panels = OUTPUTS / 32;
  const matrices = [];
  for (let i = 0; i < MATRICES; i++) {
    matrices.push([
      await random('codes', panels * words.codes),
      ...(words.scales > 0 ? [await random('scales', panels * words.scales, 1)] : []),
    ]);
  }
  const all = variants(format).filter(({ label }) => new RegExp(only).test(label));
  for (const { label, text } of all) programs.add(label, text);
  await programs.ready();
  const bytes = panels * 4 * (words.codes + words.scales);
  const shape = {
    inputs: INPUTS,
    outputs: OUTPUTS,
    outputStride: OUTPUTS,
    outputOffset: 0,
    input: 'rows',
    adds: false,
    hasBias: false,
  } as const;
  const constants = await memory.constants('shape', shapeWords(format, shape));
  for (const rows of rowCounts) {
    const step = await memory.filled('step', Uint32Array.of(rows, 0, 0, 0, 0, 0, 0, 0));
    let expected: Uint32Array | undefined;
    for (const { label, text, rows: tile, panels: perGroup } of all) {
      if (tile > Math.max(8, 2 * rows) || (tile < rows && tile < 8)) continue;
      if (rows > 64 && tile < 8) continue;
      const groups = matrices.map((matrix) =>
        programs.bind(text, [
          ...matrix,
          inputs,
          ...(format.kind === 'coded' ? [sides] : []),
          output,
          step,
          nothing,
          constants,
        ]),
      );
      const encode = (pass: GPUComputePassEncoder) => {
        pass.setPipeline(programs.pipeline(label, text));
        for (let i = 0; i < PASSES; i++) {
          for (const group of groups) {
            pass.setBindGroup(0, group);
            pass.dispatchWorkgroups(Math.ceil(panels / perGroup), Math.ceil(rows / tile));
          }
        }
      };
      const times = [];
      for (let i = 0; i < (small ? 1 : 3); i++) times.push(await time(encode, PASSES * MATRICES));
      const micros = Math.min(...times);
      const made = await read(output, rows * OUTPUTS * 4);
      expected ??= made;
      const equal = made.every((word, index) => word === expected?.[index]);
      const share = bytes / (micros / 1e6) / bandwidth;
      results.push({ type, rows, kernel: label, micros, share, equal });
      print(
        `${type.padEnd(6)} ${String(rows).padStart(4)} rows  ${micros.toFixed(1).padStart(8)} µs  ${(100 * share).toFixed(0).padStart(3)} % of the bandwidth  ${equal ? 'same bits ' : 'OTHER BITS'}  ${label}`,
      );
    }
    step.destroy();
  }
  for (const buffer of matrices.flat()) buffer.destroy();
}
report('gpu-kernels', { gpu: info.name, bandwidth, results });
gpu.close();
process.exit(0);
