// What loading onto a GPU takes of the machine's memory. Where a processor plays the GPU, its buffers are in the process, too:
// once, and nothing of the file besides.

import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { describeOnFastestGpu, gpuEnvironment } from '../support/on-gpu.ts';

const bench = fileURLToPath(new URL('../../build/bench/gpu-load.js', import.meta.url));
const MODEL = 'qwen2.5-0.5b:q8_0';
/** Pieces on their way to the GPU, 64 MB at most, and those that are being read and packed. */
const ON_THEIR_WAY_MB = 160;
/** Compiled kernels, and whatever else steps leave. */
const BESIDE_MB = 100;
/** Makes glibc give back what is freed: SwiftShader's compiler leaves 60 MB and more in its heaps. */
const returnsFreedMemory = { MALLOC_MMAP_THRESHOLD_: `${64 * 1024}`, MALLOC_TRIM_THRESHOLD_: `${64 * 1024}` };

describeOnFastestGpu('a model that is loaded onto a GPU', () => {
  it('is in memory once, while it is loaded and afterwards', async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [bench, MODEL, '2'], {
      env: { ...process.env, ...gpuEnvironment, ...returnsFreedMemory },
    });
    const { weightsMb, buffersMb, residentMb } = JSON.parse(stdout.trim().split('\n').at(-1) ?? '');
    const { before, peak, after } = residentMb;
    expect(weightsMb).toBeGreaterThan(150);
    expect(peak - before).toBeLessThan(weightsMb + ON_THEIR_WAY_MB);
    expect(after - before).toBeLessThan(buffersMb + BESIDE_MB);
  });
});
