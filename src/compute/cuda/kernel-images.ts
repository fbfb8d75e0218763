// Kernels of the CUDA backend as files: machine code that came with the package where it fits the GPU, else PTX, which the driver
// compiles and keeps. scripts/cuda-kernels.js writes both.

import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { brotliDecompressSync } from 'node:zlib';

export interface KernelImage {
  readonly kind: 'cubin' | 'ptx';
  /** Ten times the compute capability that it was compiled for. */
  readonly capability: number;
  readonly content: Uint8Array;
}

export interface KernelFile {
  /** A hash of the sources that it was compiled from. */
  readonly sources: string;
  readonly images: readonly KernelImage[];
}

interface Header {
  readonly sources: string;
  readonly images: readonly (Pick<KernelImage, 'kind' | 'capability'> & { readonly bytes: number })[];
}

const pathOf = (name: string) => fileURLToPath(new URL(`../../../${name}`, import.meta.url));

/** Files of kernels that are compiled together. */
interface KernelFiles {
  readonly ptx: string;
  readonly machineCode: string;
}

/** What every model needs. */
export const mainFiles: KernelFiles = {
  ptx: pathOf('native/cuda/kernels.ptx.br'),
  machineCode: pathOf('prebuilt/cuda-kernels.br'),
};
/** What models that see need besides. */
export const visionFiles: KernelFiles = {
  ptx: pathOf('native/cuda/vision.ptx.br'),
  machineCode: pathOf('prebuilt/cuda-vision.br'),
};

/** GPUs before Turing lack the integer matrix instructions that the kernels are made of. */
export const LEAST_CAPABILITY = 75;

/** A line of JSON that lists the images, then the images. */
export function readKernelFile(path: string): KernelFile {
  const all = brotliDecompressSync(readFileSync(path));
  const end = all.indexOf('\n');
  const { sources, images } = JSON.parse(all.toString('utf8', 0, end)) as Header;
  let at = end + 1;
  return {
    sources,
    images: images.map(({ kind, capability, bytes }) => {
      const content = all.subarray(at, at + bytes);
      at += bytes;
      return { kind, capability, content };
    }),
  };
}

/** Machine code runs on GPUs of its own major number, from its minor one on; PTX on all from its capability on. */
function fits({ kind, capability }: KernelImage, gpu: number): boolean {
  const isSameMajor = Math.floor(capability / 10) === Math.floor(gpu / 10);
  return capability <= gpu && (kind === 'ptx' || isSameMajor);
}

/** Machine code before PTX, then the one made for the highest capability; undefined where none fits. */
export function fittingImage(images: readonly KernelImage[], gpu: number): KernelImage | undefined {
  const rank = ({ kind, capability }: KernelImage) => (kind === 'cubin' ? 1000 : 0) + capability;
  return images
    .filter((image) => fits(image, gpu))
    .reduce<KernelImage | undefined>(
      (best, image) => (best === undefined || rank(image) > rank(best) ? image : best),
      undefined,
    );
}

/** What a GPU of this capability runs. */
export function kernelsFor(capability: number): KernelImage {
  return imageFor(capability, mainFiles);
}

export function visionKernelsFor(capability: number): KernelImage {
  return imageFor(capability, visionFiles);
}

/** Machine code of other sources than the PTX's is stale and not used. */
function imageFor(capability: number, files: KernelFiles): KernelImage {
  const ptx = readKernelFile(files.ptx);
  const machineCode = existsSync(files.machineCode) ? readKernelFile(files.machineCode) : undefined;
  const images = [...ptx.images, ...(machineCode?.sources === ptx.sources ? machineCode.images : [])];
  const image = fittingImage(images, capability);
  if (image !== undefined) return image;
  throw new Error(
    `there are no kernels for GPUs of compute capability ${(capability / 10).toFixed(1)}, only from 7.5 on`,
  );
}
