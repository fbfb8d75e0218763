// A product is shared out in tiles of different sizes, which follow from the number of rows: all must give the same bits.

import { afterAll, beforeAll, expect, it } from 'vitest';
import { tilesFor } from '../../src/compute/webgpu/choose-tile.ts';
import { formats, PANEL_COLUMNS } from '../../src/compute/webgpu/format.ts';
import { type Gpu, openGpu } from '../../src/compute/webgpu/gpu.ts';
import {
  canMultiply,
  multiplyKernel,
  multiplyThreads,
  shapeWords,
} from '../../src/compute/webgpu/kernels/multiply.ts';
import { GpuMemory } from '../../src/compute/webgpu/memory.ts';
import { packPanels } from '../../src/compute/webgpu/pack-panels.ts';
import { Programs } from '../../src/compute/webgpu/programs.ts';
import type { TensorType } from '../../src/weights/tensor-type.ts';
import { describeOnFastestGpu } from '../support/on-gpu.ts';
import { randomBlocks, seededRandom } from '../support/random-blocks.ts';

const OUTPUTS = 70;
const INPUTS = 768;
const ROWS = 37;
const PANELS = Math.ceil(OUTPUTS / PANEL_COLUMNS);

let gpu: Gpu;

/** The product by each tile that the adapter can run. */
async function products(type: TensorType): Promise<Uint32Array[]> {
  const format = formats[type];
  const random = seededRandom(5);
  const memory = new GpuMemory(gpu.device);
  const programs = Programs.of(gpu.device);
  try {
    const { codes, scales } = packPanels(type, INPUTS, randomBlocks(type, OUTPUTS * INPUTS, random), OUTPUTS);
    const inputCodes = Uint32Array.from({ length: (64 * INPUTS) / 4 }, () => random() * 2 ** 32);
    const sides = new Uint32Array((64 * INPUTS) / 16);
    const sideFloats = new Float32Array(sides.buffer);
    for (let at = 0; at < sides.length; at += 2) sideFloats[at] = random() / 100;
    const shape = { inputs: INPUTS, outputs: OUTPUTS, outputStride: OUTPUTS, outputOffset: 0 };
    const buffers = [
      await memory.filled('codes', codes),
      await memory.filled('scales', scales),
      await memory.filled('inputs', inputCodes),
      await memory.filled('sides', sides),
    ];
    const step = await memory.filled('step', Uint32Array.of(ROWS, 0, 0, 0));
    const nothing = await memory.storage('nothing', 16);
    const words = shapeWords(format, { ...shape, input: 'rows', adds: false, hasBias: false });
    const constants = await memory.constants('shape', words);
    const threads = multiplyThreads(gpu.info.limits.workgroupThreads);
    const results: Uint32Array[] = [];
    for (const tile of tilesFor(format, PANELS)) {
      if (!canMultiply({ ...tile, threads }, gpu.info.limits.workgroupBytes)) continue;
      const text = multiplyKernel({ format, ...tile, threads });
      const output = await memory.storage('output', 4 * ROWS * OUTPUTS);
      const readback = await memory.readback('read', 4 * ROWS * OUTPUTS);
      const encoder = gpu.device.createCommandEncoder();
      const pass = encoder.beginComputePass();
      pass.setPipeline(programs.pipeline('multiply', text));
      pass.setBindGroup(0, programs.bind(text, [...buffers, output, step, nothing, constants]));
      pass.dispatchWorkgroups(Math.ceil(PANELS / tile.panels), Math.ceil(ROWS / tile.rows));
      pass.end();
      encoder.copyBufferToBuffer(output, 0, readback, 0, 4 * ROWS * OUTPUTS);
      gpu.device.queue.submit([encoder.finish()]);
      await readback.mapAsync(1);
      results.push(new Uint32Array(readback.getMappedRange().slice(0)));
    }
    return results;
  } finally {
    memory.release();
  }
}

describeOnFastestGpu('tiles of a product', () => {
  beforeAll(async () => {
    gpu = await openGpu();
  });
  afterAll(() => gpu.close());

  it('give the same bits', async () => {
    const [first, ...others] = await products('Q4_0');
    expect(others.length).toBeGreaterThan(3);
    expect(first?.some((word) => word !== 0)).toBe(true);
    for (const other of others) expect(other).toEqual(first);
  });
});
