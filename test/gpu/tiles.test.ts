// A product is shared out in tiles of different sizes, which follow from the number of rows: all must give the same bits.

import { expect, it } from 'vitest';
import { tilesFor } from '../../src/compute/webgpu/choose-tile.ts';
import { formats, PANEL_COLUMNS } from '../../src/compute/webgpu/format.ts';
import {
  canMultiply,
  multiplyKernel,
  multiplyThreads,
  shapeWords,
} from '../../src/compute/webgpu/kernels/matmul.ts';
import { packPanels } from '../../src/compute/webgpu/pack-panels.ts';
import type { TensorType } from '../../src/weights/tensor-type.ts';
import { sharedGpu } from '../support/gpu-backend.ts';
import { describeOnFastestGpu } from '../support/on-gpu.ts';
import { randomBlocks, seededRandom } from '../support/random-blocks.ts';

const OUTPUTS = 70;
const INPUTS = 768;
const ROWS = 37;
const PANELS = Math.ceil(OUTPUTS / PANEL_COLUMNS);

describeOnFastestGpu('tiles of a product', () => {
  const { gpu, run, withMemory } = sharedGpu();

  /** The product by each tile that the adapter can run. */
  const products = (type: TensorType): Promise<Uint32Array[]> =>
    withMemory(async (memory) => {
      const format = formats[type];
      const random = seededRandom(5);
      const blocks = randomBlocks(type, OUTPUTS * INPUTS, random);
      const { codes, scales } = packPanels(type, INPUTS, blocks, OUTPUTS);
      const inputCodes = Uint32Array.from({ length: (64 * INPUTS) / 4 }, () => random() * 2 ** 32);
      const sides = new Uint32Array((64 * INPUTS) / 16);
      const sideFloats = new Float32Array(sides.buffer);
      for (let at = 0; at < sides.length; at += 2) sideFloats[at] = random() / 100;
      const shape = { inputs: INPUTS, outputs: OUTPUTS, outputStride: OUTPUTS, outputOffset: 0 };
      const words = shapeWords(format, { ...shape, input: 'rows', adds: false, hasBias: false });
      const before = [
        await memory.filled('codes', codes),
        await memory.filled('scales', scales),
        await memory.filled('inputs', inputCodes),
        await memory.filled('sides', sides),
      ];
      const after = [
        await memory.filled('step', Uint32Array.of(ROWS, 0, 0, 0)),
        await memory.storage('nothing', 16),
        await memory.constants('shape', words),
      ];
      const { workgroupThreads, workgroupBytes } = gpu().info.limits;
      const threads = multiplyThreads(workgroupThreads);
      const results: Uint32Array[] = [];
      for (const tile of tilesFor(format, PANELS)) {
        if (!canMultiply({ ...tile, threads }, workgroupBytes)) continue;
        const text = multiplyKernel({ format, ...tile, threads });
        const output = await memory.storage('output', 4 * ROWS * OUTPUTS);
        const grid = [Math.ceil(PANELS / tile.panels), Math.ceil(ROWS / tile.rows)] as const;
        results.push(
          new Uint32Array(await run(output, { text, buffers: [...before, output, ...after], grid })),
        );
      }
      return results;
    });

  it('give the same bits', async () => {
    const [first, ...others] = await products('Q4_0');
    expect(others.length).toBeGreaterThan(3);
    expect(first?.some((word) => word !== 0)).toBe(true);
    for (const other of others) expect(other).toEqual(first);
  });
});
