// The addon with a GPU that the processor simulates: CUDA kernels as C++, thread by thread, slow and exact. It is built where its
// sources have changed.

import { fileURLToPath } from 'node:url';
import { beforeAll } from 'vitest';
import { buildNative, findCompiler } from '../../scripts/build-native.js';
import { type Addon, loadAddon } from '../../src/compute/cpu/binding.ts';

const path = fileURLToPath(new URL('../../build/chairlift-simulated-gpu.node', import.meta.url));

export function simulatedGpu(): { addon(): Addon } {
  let addon: Addon | undefined;
  beforeAll(async () => {
    const compiler = findCompiler();
    if (compiler === undefined) throw new Error('there is no C++ compiler to build the simulated GPU with');
    await buildNative({ compiler, output: path, sets: [], simulatesGpu: true });
    const load = loadAddon(path);
    if (!load.available) throw new Error(load.reason);
    addon = load.addon;
  }, 600_000);
  return { addon: () => addon as Addon };
}
