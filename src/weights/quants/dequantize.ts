// Values of any tensor type as float32, exactly as its format defines them.

import { rowBytes, type TensorType, tensorLayouts } from '../tensor-type.ts';
import { decodeF8 } from './f8.ts';
import { decodeBF16, decodeF16, decodeF32 } from './floats.ts';
import { emptyGroup, GROUP_SIZE, groupFloats } from './group.ts';
import { groupReaders, type QuantType } from './group-readers.ts';

/** Decodes whole blocks: `out.length` values from `bytes`, which holds exactly those. */
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
