import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { kernelSourcesHash, mainUnit, visionUnit } from '../../../scripts/cuda-kernels.js';
import { readReport } from '../../../scripts/cuda-report.js';
import {
  fittingImage,
  type KernelImage,
  kernelsFor,
  mainFiles,
  readKernelFile,
  visionFiles,
  visionKernelsFor,
} from './kernel-images.ts';

const image = (kind: KernelImage['kind'], capability: number): KernelImage => ({
  kind,
  capability,
  content: new Uint8Array(1),
});

const units = [
  { name: 'of every model', files: mainFiles, unit: mainUnit, find: kernelsFor },
  { name: 'of models that see', files: visionFiles, unit: visionUnit, find: visionKernelsFor },
] as const;

describe.each(units)('the compiled CUDA kernels $name', ({ files, unit, find }) => {
  it('are of the present sources; node scripts/cuda-kernels.js compiles them again', () => {
    expect(readKernelFile(files.ptx).sources).toBe(kernelSourcesHash(unit));
  });

  it('are PTX of CUDA 12.0 that ends with a zero, one for each generation that is compiled for', () => {
    const { images } = readKernelFile(files.ptx);
    expect(images.map(({ kind, capability }) => `${kind} ${capability}`)).toEqual([
      'ptx 75',
      'ptx 80',
      'ptx 90',
    ]);
    for (const { capability, content } of images) {
      const text = Buffer.from(content).toString('latin1');
      expect(text).toContain('.version 8.0\n');
      expect(text).toContain(`.target sm_${capability}\n`);
      expect(text.indexOf('\0')).toBe(text.length - 1);
    }
  });

  it('fit every GPU from Turing on, and none before', () => {
    expect(find(75).capability).toBe(75);
    expect(find(89).capability).toBeGreaterThanOrEqual(80);
    expect(find(121).capability).toBeGreaterThanOrEqual(90);
    expect(() => find(70)).toThrow('only from 7.5 on');
  });
});

describe.each(units)("the compiler's report of the kernels $name", ({ files, unit }) => {
  const { sources, kernels, spills } = readReport(readFileSync(unit.report, 'utf8'));

  /** Bytes of registers that a kernel may store to memory; the first that fits counts, and no other kernel may store any. */
  const allowed: readonly (readonly [kernels: RegExp, bytes: number])[] = [
    [/^attend_view_/, 8],
    [/^attend_many_\w+_256$/, 1_100],
    [/^attend_many_\w+_narrow$/, 210],
    [/^attend_/, 90],
    [/^few\d_(unsigned_)?byte_f32_32_minimum$/, 820],
    [/^few\d_/, 350],
    [/^many_/, 70],
  ];

  it('is of the PTX, and of all kernels in it', () => {
    const file = readKernelFile(files.ptx);
    expect(sources).toBe(file.sources);
    for (const { content } of file.images) {
      expect(
        Buffer.from(content)
          .toString('latin1')
          .match(/\.entry /g),
      ).toHaveLength(kernels);
    }
  });

  it('lists no kernel that spills more than it may', () => {
    const beyond = spills.filter(
      ({ name, spilled }) => spilled > (allowed.find(([pattern]) => pattern.test(name))?.[1] ?? 0),
    );
    expect(beyond).toEqual([]);
  });
});

describe('the image for a GPU', () => {
  const images = [
    image('ptx', 75),
    image('cubin', 80),
    image('ptx', 90),
    image('cubin', 86),
    image('cubin', 90),
  ];

  it('is machine code of the same major number and the highest minor one', () => {
    expect(fittingImage(images, 86)).toBe(images[3]);
    expect(fittingImage(images, 87)).toBe(images[3]);
    expect(fittingImage(images, 80)).toBe(images[1]);
  });

  it('is PTX of the highest capability where no machine code fits', () => {
    expect(fittingImage(images, 120)).toBe(images[2]);
    expect(fittingImage(images, 75)).toBe(images[0]);
  });

  it('is missing for a GPU older than all', () => {
    expect(fittingImage(images, 61)).toBeUndefined();
  });
});
