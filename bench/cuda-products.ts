// `npm run bench -- cuda-products KERNELS [types] [OUTPUTSxINPUTS,…] [rows] [families]`: how long single products take on an NVIDIA
// GPU, with weights that no cache holds. KERNELS is the compiled file; families are few, many, or best for what a step
// would use. Ends in one JSON line.

import { readFileSync } from 'node:fs';
import type { TensorType } from '#src/weights/tensor-type.ts';
import { tensorLayouts } from '#src/weights/tensor-type.ts';
import { countFrom, giveUp, openAddon, print, report } from './harness.ts';

const REPEATS = 40;

const [
  kernelFile = giveUp('give the file of compiled kernels'),
  typesText = 'Q4_0,Q8_0,Q4_K,Q6_K,MXFP4,MLX4_G64_BF16,BF16',
  shapesText = '14336x4096,4096x14336,4096x4096',
  rowsText = '1,8,16,32,64,128,512,2048',
  familiesText = 'best',
] = process.argv.slice(2);

const addon = openAddon();
const kernels = new Uint8Array(readFileSync(kernelFile));
const shapes = shapesText.split(',').map((text) => {
  const [outputs = '', inputs = ''] = text.split('x');
  return { outputs: countFrom(outputs, 'outputs'), inputs: countFrom(inputs, 'inputs') };
});
const rowCounts = rowsText.split(',').map((text) => countFrom(text, 'rows'));
const results: object[] = [];

for (const name of typesText.split(',')) {
  if (!Object.hasOwn(tensorLayouts, name)) giveUp(`no tensor type is named ${name}`);
  const type = name as TensorType;
  const { blockSize, blockBytes } = tensorLayouts[type];
  for (const { outputs, inputs } of shapes) {
    const bytes = (outputs * inputs * blockBytes) / blockSize;
    for (const rows of rowCounts) {
      for (const family of familiesText.split(',')) {
        const product = { type, outputs, inputs, members: 1, rows, tiles: new Int32Array(0) };
        const named = { ...product, family: family === 'best' ? '' : family };
        const seconds = addon.timeMultiplyOnGpu(0, kernels, named, REPEATS);
        const [microseconds, terabytes] = [seconds * 1e6, bytes / seconds / 1e12];
        const operations = (2 * outputs * inputs * rows) / seconds / 1e12;
        print(
          `${type.padEnd(14)} ${outputs}x${inputs} ${String(rows).padStart(5)} rows ${family.padEnd(7)} ${microseconds.toFixed(1).padStart(8)} µs  ${terabytes.toFixed(2)} TB/s  ${operations.toFixed(0)} TOP/s`,
        );
        results.push({ type, outputs, inputs, rows, family, microseconds });
      }
    }
  }
}
report('cuda-products', { results });
