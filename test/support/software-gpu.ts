// A GPU played by the processor, so that what runs on GPUs is tested everywhere: SwiftShader, which scripts/software-gpu.js
// brings, or whatever driver VK_DRIVER_FILES already names.

import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const folder = fileURLToPath(new URL('../../build/swiftshader', import.meta.url));
const hasPackage = existsSync(new URL('../../build/webgpu/node_modules/webgpu/index.js', import.meta.url));

/** RTLD_LAZY and RTLD_NODELETE: what is loaded stays, under its own name. */
const STAY = 0x1001;

export const hasSoftwareGpu: boolean = hasPackage && useDriver();

/** For this process and all it starts. */
function useDriver(): boolean {
  if (process.env.VK_DRIVER_FILES !== undefined) return true;
  if (!existsSync(`${folder}/libvk_swiftshader.so`)) return false;
  const driver = `${folder}/vk_swiftshader_icd.json`;
  process.env.VK_DRIVER_FILES = driver;
  process.env.VK_ICD_FILENAMES = driver;
  process.env.LD_LIBRARY_PATH = folder;
  try {
    // Too late for LD_LIBRARY_PATH here: the loader is loaded by its place, and Dawn then finds it by its name.
    process.dlopen({ exports: {} }, `${folder}/libvulkan.so.1`, STAY);
  } catch {
    // It is no addon, which is all that is said.
  }
  return true;
}
