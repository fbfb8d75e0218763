// Random but valid weights of any tensor type: random bits with scales that keep values near a wanted size,
// so that no quantizer is needed.

import { type TensorType, tensorLayouts } from '../../src/weights/tensor-type.ts';

/** Numbers from 0 up to 1. */
export type Random = () => number;

export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}

interface ScaleField {
  readonly at: number;
  /** E8M0: a byte n for 2^(n - 127). */
  readonly type: 'F16' | 'F32' | 'E8M0';
  /** Value of the field for a block whose values shall have a mean size of about 1. */
  readonly unit: number;
}

const half = (at: number, unit: number): ScaleField => ({ at, type: 'F16', unit });
const power = (at: number, unit: number): ScaleField => ({ at, type: 'E8M0', unit });
const single = (at: number, unit: number): ScaleField => ({ at, type: 'F32', unit });

export type BlockType = Exclude<TensorType, 'F32' | 'F16' | 'BF16'>;

// The second field of a block, where there is one, brings its values' mean near zero.
const mlx4 = [single(0, 1 / 4.6), single(4, -7.5 / 4.6)];
const mlx8 = [single(0, 1 / 74), single(4, -127.5 / 74)];

/** Where a block's own floats are. */
export const scaleFields: Readonly<Record<BlockType, readonly ScaleField[]>> = {
  Q8_0: [half(0, 1 / 74)],
  Q4_0: [half(0, 1 / 4.6)],
  Q4_1: [half(0, 1 / 4.6), half(2, -7.5 / 4.6)],
  Q5_0: [half(0, 1 / 9.2)],
  Q5_1: [half(0, 1 / 9.2), half(2, -15.5 / 9.2)],
  Q2_K: [half(80, 1 / 15), half(82, 1.5 / 15)],
  Q3_K: [half(108, 1 / 42)],
  Q4_K: [half(0, 1 / 260), half(2, 7.5 / 260)],
  Q5_K: [half(0, 1 / 540), half(2, 15.5 / 540)],
  Q6_K: [half(208, 1 / 1370)],
  IQ4_NL: [half(0, 1 / 65)],
  IQ4_XS: [half(0, 1 / 1200)],
  MXFP4: [power(0, 1 / 2.5)],
  MLX4_G32: mlx4,
  MLX4_G64: mlx4,
  MLX4_G128: mlx4,
  MLX8_G32: mlx8,
  MLX8_G64: mlx8,
  MLX8_G128: mlx8,
};

/** `count` blocks of `type` whose values are of about the given size. */
export function randomBlocks(type: TensorType, count: number, random: Random, size = 0.1): Uint8Array {
  const { blockBytes } = tensorLayouts[type];
  const bytes = new Uint8Array(count * blockBytes);
  const view = new DataView(bytes.buffer);
  if (type === 'F32' || type === 'F16' || type === 'BF16') {
    for (let at = 0; at < bytes.length; at += blockBytes) {
      writeFloat(view, at, type, (random() - 0.5) * 2 * Math.sqrt(3) * size);
    }
    return bytes;
  }
  for (let at = 0; at < bytes.length; at++) bytes[at] = Math.floor(random() * 256);
  for (let block = 0; block < bytes.length; block += blockBytes) {
    const blockSize = size * (0.5 + random());
    for (const field of scaleFields[type])
      writeFloat(view, block + field.at, field.type, field.unit * blockSize);
  }
  return bytes;
}

type FloatType = 'F32' | 'F16' | 'BF16' | 'E8M0';

function writeFloat(view: DataView, at: number, type: FloatType, value: number): void {
  if (type === 'E8M0') {
    view.setUint8(at, Math.round(Math.log2(value)) + 127);
  } else if (type === 'F32') {
    view.setFloat32(at, value, true);
  } else if (type === 'F16') {
    view.setUint16(at, halfBits(value), true);
  } else {
    // A BF16 is the upper half of a float32.
    const bits = new DataView(new ArrayBuffer(4));
    bits.setFloat32(0, value);
    view.setUint16(at, bits.getUint16(0), true);
  }
}

/** The half nearest to a value within its range. */
function halfBits(value: number): number {
  const sign = value < 0 ? 0x8000 : 0;
  const size = Math.abs(value);
  const exponent = Math.max(Math.floor(Math.log2(size)), -14);
  if (size === 0 || exponent > 15) return sign | (size === 0 ? 0 : 0x7bff);
  // Below 2^-14 the exponent field is 0 and the leading bit is not implied; a carry runs into the exponent.
  const mantissa = Math.round(size * 2 ** (10 - exponent));
  return sign | (((exponent + 14) << 10) + mantissa);
}
