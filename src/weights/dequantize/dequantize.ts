// Values of any tensor type as float32, exactly as its format defines them.

import { rowBytes, type TensorType, tensorLayouts } from '../tensor-type.ts';
import type { BlockDecoder } from './block-decoder.ts';
import { decodeBF16, decodeF16, decodeF32, type RunDecoder } from './floats.ts';
import { decodeIQ4_NL, decodeIQ4_XS } from './iq4.ts';
import { decodeQ2_K, decodeQ3_K, decodeQ4_K, decodeQ5_K, decodeQ6_K } from './k-quants.ts';
import { decodeQ4_0, decodeQ4_1, decodeQ5_0, decodeQ5_1, decodeQ8_0 } from './legacy-blocks.ts';
import { mlxDecoder } from './mlx-groups.ts';

const runDecoders: Readonly<Record<TensorType, RunDecoder>> = {
  F32: decodeF32,
  F16: decodeF16,
  BF16: decodeBF16,
  Q8_0: blockByBlock('Q8_0', decodeQ8_0),
  Q4_0: blockByBlock('Q4_0', decodeQ4_0),
  Q4_1: blockByBlock('Q4_1', decodeQ4_1),
  Q5_0: blockByBlock('Q5_0', decodeQ5_0),
  Q5_1: blockByBlock('Q5_1', decodeQ5_1),
  Q2_K: blockByBlock('Q2_K', decodeQ2_K),
  Q3_K: blockByBlock('Q3_K', decodeQ3_K),
  Q4_K: blockByBlock('Q4_K', decodeQ4_K),
  Q5_K: blockByBlock('Q5_K', decodeQ5_K),
  Q6_K: blockByBlock('Q6_K', decodeQ6_K),
  IQ4_NL: blockByBlock('IQ4_NL', decodeIQ4_NL),
  IQ4_XS: blockByBlock('IQ4_XS', decodeIQ4_XS),
  MLX4_G32: blockByBlock('MLX4_G32', mlxDecoder(4, 32)),
  MLX4_G64: blockByBlock('MLX4_G64', mlxDecoder(4, 64)),
  MLX4_G128: blockByBlock('MLX4_G128', mlxDecoder(4, 128)),
  MLX8_G32: blockByBlock('MLX8_G32', mlxDecoder(8, 32)),
  MLX8_G64: blockByBlock('MLX8_G64', mlxDecoder(8, 64)),
  MLX8_G128: blockByBlock('MLX8_G128', mlxDecoder(8, 128)),
};

/** Decodes whole blocks: `out.length` values from `bytes`, which holds exactly those. */
export function dequantize(type: TensorType, bytes: Uint8Array, out: Float32Array): void {
  if (out.length % tensorLayouts[type].blockSize !== 0 || rowBytes(type, out.length) !== bytes.length) {
    throw new RangeError(`${bytes.length} bytes of ${type} are not ${out.length} values`);
  }
  runDecoders[type](bytes, out);
}

function blockByBlock(type: TensorType, decode: BlockDecoder): RunDecoder {
  const { blockSize, blockBytes } = tensorLayouts[type];
  return (bytes, out) => {
    for (let at = 0, to = 0; to < out.length; at += blockBytes, to += blockSize) decode(bytes, at, out, to);
  };
}
