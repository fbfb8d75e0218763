// The built addon for tests; on a machine without a compiler those that need it skip, and say so.

import type { CreateBackend } from '../../src/compute/backend.ts';
import { createCpuBackend } from '../../src/compute/cpu/backend.ts';
import { type Addon, loadAddon } from '../../src/compute/cpu/binding.ts';

const load = loadAddon(process.env.CHAIRLIFT_TEST_ADDON);

export const hasAddon = load.available;

export function addon(): Addon {
  if (!load.available) throw new Error(load.reason);
  return load.addon;
}

export const createOnCpu: CreateBackend = (spec, weights, options) =>
  createCpuBackend(addon(), spec, weights, options);
