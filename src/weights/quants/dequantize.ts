// Dequantizes any tensor type to float32, exactly as its format defines.

import { eachMlxType, rowBytes, type TensorType, tensorLayouts } from '../tensor-type.ts';
import { decodeBF16, decodeF8, decodeF16, decodeF32 } from './floats.ts';
import { emptyGroup, GROUP_SIZE, type GroupReader, groupFloats } from './group.ts';
import {
  readIQ1_M,
  readIQ1_S,
  readIQ2_S,
  readIQ2_XS,
  readIQ2_XXS,
  readIQ3_S,
  readIQ3_XXS,
} from './iq-quants.ts';
import { readQ2_K, readQ3_K, readQ4_K, readQ5_K, readQ6_K } from './k-quants.ts';
import { readQ4_0, readQ4_1, readQ5_0, readQ5_1, readQ8_0 } from './legacy-blocks.ts';
import { mlxReader } from './mlx-groups.ts';
import { readIQ4_NL, readIQ4_XS, readMXFP4, readNVFP4 } from './nibble-tables.ts';
import { readTQ1_0, readTQ2_0 } from './ternary.ts';

export function dequantize(type: TensorType, bytes: Uint8Array, out: Float32Array): void {
  if (out.length % tensorLayouts[type].blockSize !== 0 || rowBytes(type, out.length) !== bytes.length) {
    throw new RangeError(`${bytes.length} bytes of ${type} are not ${out.length} values`);
  }
  if (type === 'F32') decodeF32(bytes, out);
  else if (type === 'F16') decodeF16(bytes, out);
  else if (type === 'BF16') decodeBF16(bytes, out);
  else if (type === 'F8_G32' || type === 'F8_G128') decodeF8(tensorLayouts[type].blockSize, bytes, out);
  else decodeGroups(type, bytes, out);
}

function decodeGroups(type: QuantType, bytes: Uint8Array, out: Float32Array): void {
  const { blockSize, blockBytes } = tensorLayouts[type];
  const read = groupReaders[type];
  const group = emptyGroup();
  for (let at = 0, to = 0; to < out.length; at += blockBytes) {
    for (let index = 0; index < blockSize / GROUP_SIZE; index++, to += GROUP_SIZE) {
      read(bytes, at, index, group);
      groupFloats(group, out, to);
    }
  }
}

export type QuantType = Exclude<TensorType, 'F32' | 'F16' | 'BF16' | 'F8_G32' | 'F8_G128'>;

export const groupReaders: Readonly<Record<QuantType, GroupReader>> = {
  Q8_0: readQ8_0,
  Q4_0: readQ4_0,
  Q4_1: readQ4_1,
  Q5_0: readQ5_0,
  Q5_1: readQ5_1,
  Q2_K: readQ2_K,
  Q3_K: readQ3_K,
  Q4_K: readQ4_K,
  Q5_K: readQ5_K,
  Q6_K: readQ6_K,
  IQ1_S: readIQ1_S,
  IQ1_M: readIQ1_M,
  IQ2_XXS: readIQ2_XXS,
  IQ2_XS: readIQ2_XS,
  IQ2_S: readIQ2_S,
  IQ3_XXS: readIQ3_XXS,
  IQ3_S: readIQ3_S,
  IQ4_NL: readIQ4_NL,
  IQ4_XS: readIQ4_XS,
  TQ1_0: readTQ1_0,
  TQ2_0: readTQ2_0,
  MXFP4: readMXFP4,
  NVFP4: readNVFP4,
  ...eachMlxType(mlxReader),
};
