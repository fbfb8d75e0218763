// What benchmarks share: the lines they print, the arguments they read, the errors they end with, and blocks to measure on.

import { type Dummy, parseDummy } from '#src/bench/dummy-model.ts';
import { dummyShapes } from '#src/bench/dummy-shapes.ts';
import { dummyTypes } from '#src/bench/dummy-weights.ts';
import type { Backend } from '#src/compute/backend.ts';
import { buildBatch } from '#src/compute/batch.ts';
import { type Addon, loadAddon } from '#src/compute/cpu/binding.ts';
import { type Gpu, GpuUnavailableError, openGpu } from '#src/compute/webgpu/gpu.ts';

export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** The last line of every benchmark. */
export function report(benchmark: string, figures: object): void {
  print(JSON.stringify({ benchmark, ...figures }));
}

export function giveUp(reason: string): never {
  process.stderr.write(`${reason}\n`);
  process.exit(1);
}

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

export function gpuFrom(text: string | undefined): Promise<Gpu> {
  return openGpu(text).catch((error: unknown) => {
    if (error instanceof GpuUnavailableError) giveUp(error.message);
    throw error;
  });
}

export function kernelsFrom(text: string | undefined, addon: Addon): string {
  const available = addon.kernels();
  const name = text ?? available.at(-1) ?? '';
  return available.includes(name)
    ? name
    : giveUp(`no kernels named ${name} here, but ${available.join(', ')}`);
}

const FILLED_AT_ONCE = 64;

/** Writes one token to every block: its pages are then committed, and reading zeros takes as long as reading anything. */
export async function fillBlocks(backend: Backend): Promise<void> {
  for (let first = 0; first < backend.blockCount; first += FILLED_AT_ONCE) {
    const count = Math.min(FILLED_AT_ONCE, backend.blockCount - first);
    const sequences = Array.from({ length: count }, (_, index) => ({
      tokens: [index],
      start: 0,
      blocks: [first + index],
      wantLogits: 'none' as const,
    }));
    await backend.step(buildBatch(sequences));
  }
}
