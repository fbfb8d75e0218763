// What benchmarks have in common: the lines they print, the arguments they read, the mistakes they end with.

import { type Dummy, parseDummy } from '#src/bench/dummy-model.ts';
import { dummyShapes } from '#src/bench/dummy-shapes.ts';
import { dummyTypes } from '#src/bench/dummy-weights.ts';
import { type Addon, loadAddon } from '#src/compute/cpu/binding.ts';
import { type Gpu, GpuUnavailableError, openGpu } from '#src/compute/webgpu/gpu.ts';

export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

export function giveUp(reason: string): never {
  process.stderr.write(`${reason}\n`);
  process.exit(1);
}

/** SHAPE:TYPE. */
export function dummyFrom(text: string): Dummy {
  const known = `${Object.keys(dummyShapes).join(', ')} and ${dummyTypes.join(', ')}`;
  return parseDummy(text) ?? giveUp(`give SHAPE:TYPE, of ${known}`);
}

export function countFrom(text: string, name: string): number {
  const value = Number(text);
  return Number.isInteger(value) && value > 0 ? value : giveUp(`give a number of ${name}, not ${text}`);
}

export function openAddon(): Addon {
  const load = loadAddon();
  return load.available ? load.addon : giveUp(load.reason);
}

/** The GPU of that name; any where none is given. */
export function gpuFrom(text: string | undefined): Promise<Gpu> {
  return openGpu(text).catch((error: unknown) => {
    if (error instanceof GpuUnavailableError) giveUp(error.message);
    throw error;
  });
}

/** The kernel table of that name; the fastest where none is given. */
export function kernelsFrom(text: string | undefined, addon: Addon): string {
  const available = addon.kernels();
  const name = text ?? available.at(-1) ?? '';
  return available.includes(name)
    ? name
    : giveUp(`no kernels named ${name} here, but ${available.join(', ')}`);
}
