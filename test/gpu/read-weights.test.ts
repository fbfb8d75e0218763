// A GPU reads the weights of every type out of their panels: rows of an embedding are what the file's are.

import { expect, it } from 'vitest';
import { formats } from '../../src/compute/webgpu/format.ts';
import { embedKernel } from '../../src/compute/webgpu/kernels/embedding.ts';
import { HEADER_WORDS, ROW_WORDS } from '../../src/compute/webgpu/kernels/step-layout.ts';
import { packPanels } from '../../src/compute/webgpu/pack-panels.ts';
import { dequantize } from '../../src/weights/quants/dequantize.ts';
import { type TensorType, tensorLayouts } from '../../src/weights/tensor-type.ts';
import { sharedGpu } from '../support/gpu-backend.ts';
import { describeOnFastestGpu } from '../support/on-gpu.ts';
import { randomBlocks, seededRandom } from '../support/random-blocks.ts';

const SIZE = 512;
const TOKENS = 41;

describeOnFastestGpu('weights on a GPU', () => {
  const { run, withMemory } = sharedGpu();

  /** All rows of an embedding, as a GPU reads them. */
  const embedded = (type: TensorType, rows: Uint8Array): Promise<Float32Array> =>
    withMemory(async (memory) => {
      const format = formats[type];
      const { codes, scales } = packPanels(type, SIZE, rows, TOKENS);
      const step = new Uint32Array(HEADER_WORDS + ROW_WORDS * TOKENS);
      step[0] = TOKENS;
      for (let row = 0; row < TOKENS; row++) step[HEADER_WORDS + ROW_WORDS * row] = row;
      const output = await memory.storage('output', 4 * TOKENS * SIZE);
      const buffers = [
        await memory.filled('codes', codes),
        ...(format.kind === 'coded' ? [await memory.filled('scales', scales)] : []),
        output,
        await memory.filled('step', step),
      ];
      const text = embedKernel({ format, size: SIZE, scale: 1, firstToken: 0, tokens: TOKENS });
      return new Float32Array(await run(output, { text, buffers, grid: [TOKENS] }));
    });

  it.each(Object.keys(tensorLayouts) as TensorType[])('are those of %s rows', async (type) => {
    const rows = randomBlocks(type, (TOKENS * SIZE) / tensorLayouts[type].blockSize, seededRandom(3));
    const expected = new Float32Array(TOKENS * SIZE);
    dequantize(type, rows, expected);
    const largest = expected.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    const actual = await embedded(type, rows);
    const worst = expected.reduce(
      (most, value, at) => Math.max(most, Math.abs(value - (actual[at] as number))),
      0,
    );
    // Scales that are products are rounded to halves.
    expect(worst).toBeLessThanOrEqual(2 ** -10 * largest);
  });
});
