// The addon with a GPU that the processor simulates: CUDA kernels as C++, thread by thread, slow and exact.

import { fileURLToPath } from 'node:url';
import { type Addon, loadAddon } from '../../src/compute/cpu/binding.ts';

export const simulatedAddonPath = fileURLToPath(
  new URL('../../build/chairlift-simulated-gpu.node', import.meta.url),
);
export function simulatedGpu() {
  let addon: Addon | undefined;
  const load = loadAddon(simulatedAddonPath);
  if (load.available) addon = load.addon;
  return { addon: () => addon as Addon };
}
