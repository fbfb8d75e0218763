// Models whose experts are MXFP4, as gpt-oss ships them: blocks and scales are two tensors of a safetensors model, and
// presented as one:
//
//   X_blocks uint8 [..., rows, groups, 16]   ┐
//   X_scales uint8 [..., rows, groups]       ┴─> X [..., rows, groups * 32], per group { scale, 16 bytes }
//
// There, byte j holds the values 2j and 2j + 1; in a block of the type MXFP4 it holds j and j + 16. So it is in blocks of NVFP4,
// which MLX has beside MXFP4 and which have two scales.

import {
  type DerivedTensor,
  derivedBySuffix,
  partFault,
  readPart,
  requireDtype,
  requirePart,
  requireShape,
} from './derived-weights.ts';
import { printable } from './model-file-error.ts';
import type { Safetensors, SafetensorsEntry } from './safetensors.ts';
import { tensorLayouts } from './tensor-type.ts';
import type { WeightSource } from './weight-source.ts';

const BLOCKS = '_blocks';
const CODE_BYTES = 16;

export function mxfp4Weights(model: Safetensors): WeightSource {
  return derivedBySuffix(model, BLOCKS, (blocks, name) => pairedTensor(model, blocks, name));
}

function pairedTensor(model: Safetensors, blocks: SafetensorsEntry, name: string): DerivedTensor {
  const scales = requirePart(model, `${name}_scales`, blocks);
  for (const part of [blocks, scales]) requireDtype(part, 'U8');
  const groupsPerRow = blocks.shape.at(-2) ?? 0;
  if (blocks.shape.length < 3 || blocks.bytes === 0 || blocks.shape.at(-1) !== CODE_BYTES) {
    throw partFault(
      blocks,
      `has the shape [${blocks.shape.slice(0, 8).join(', ')}], not one of blocks of 32 values`,
    );
  }
  requireShape(scales, blocks.shape.slice(0, -1), printable(blocks.name));
  return fourBitTensor('MXFP4', { name, pairs: blocks, scales }, [
    ...blocks.shape.slice(0, -2),
    groupsPerRow * 32,
  ]);
}

interface Parts {
  readonly name: string;
  readonly pairs: SafetensorsEntry;
  readonly scales: SafetensorsEntry;
}

/** The last dimension must be a whole number of blocks. */
export function fourBitTensor(
  type: 'MXFP4' | 'NVFP4',
  { name, pairs, scales }: Parts,
  shape: readonly number[],
): DerivedTensor {
  const { blockSize, blockBytes } = tensorLayouts[type];
  const blocksPerRow = (shape.at(-1) ?? 0) / blockSize;
  const scalesPerBlock = blockBytes - CODE_BYTES;
  return {
    name,
    type,
    shape,
    parts: [pairs, scales],
    fill: (first, count, into) =>
      joinBlocks(
        readPart(pairs, blocksPerRow * CODE_BYTES, first, count),
        readPart(scales, blocksPerRow * scalesPerBlock, first, count),
        scalesPerBlock,
        into,
      ),
  };
}

function joinBlocks(pairs: Buffer, scales: Buffer, scalesPerBlock: number, into: Uint8Array): void {
  const blockBytes = scalesPerBlock + CODE_BYTES;
  // Half a block at a time: there are millions.
  const words = new Int32Array(pairs.buffer, pairs.byteOffset, pairs.length / 4);
  for (let group = 0, to = 0; to < into.length; group++, to += blockBytes) {
    for (let i = 0; i < scalesPerBlock; i++) into[to + i] = scales[group * scalesPerBlock + i] as number;
    for (let half = 0; half < 2; half++) {
      const early = words[4 * group + half] as number;
      const late = words[4 * group + half + 2] as number;
      const even = (early & 0x0f0f0f0f) | ((late & 0x0f0f0f0f) << 4);
      const odd = ((early >>> 4) & 0x0f0f0f0f) | (late & 0xf0f0f0f0);
      const at = to + scalesPerBlock + 8 * half;
      into[at] = even;
      into[at + 1] = odd;
      into[at + 2] = even >> 8;
      into[at + 3] = odd >> 8;
      into[at + 4] = even >> 16;
      into[at + 5] = odd >> 16;
      into[at + 6] = even >> 24;
      into[at + 7] = odd >> 24;
    }
  }
}
