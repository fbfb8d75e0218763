// Random but valid weights of any tensor type: random bits with scales that keep values near a wanted size,
// so that no quantizer is needed.

import { f8Values } from '../../src/weights/quants/floats.ts';
import {
  eachMlxType,
  type MlxLayout,
  mlxScaleBytes,
  type TensorType,
  tensorLayouts,
} from '../../src/weights/tensor-type.ts';

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
  /** E8M0: a byte n for 2^(n - 127). E4M3: a float of eight bits. Spread: a half whose bits are the upper four of four shorts. */
  readonly type: 'F16' | 'BF16' | 'F32' | 'E8M0' | 'E4M3' | 'spread';
  /** Value of the field for a block whose values shall have a mean size of about 1. */
  readonly unit: number;
}

const half = (at: number, unit: number): ScaleField => ({ at, type: 'F16', unit });
const spread = (at: number, unit: number): ScaleField => ({ at, type: 'spread', unit });
const power = (at: number, unit: number): ScaleField => ({ at, type: 'E8M0', unit });
const eight = (at: number, unit: number): ScaleField => ({ at, type: 'E4M3', unit });
const single = (at: number, unit: number): ScaleField => ({ at, type: 'F32', unit });

export type BlockType = Exclude<TensorType, 'F32' | 'F16' | 'BF16'>;

// The second field of a block, where there is one, brings its values' mean near zero.
const mlx = ({ bits, scale }: MlxLayout): readonly ScaleField[] => {
  const [most, unit] = [2 ** bits - 1, 12 ** 0.5 / 2 ** bits];
  return [
    { at: 0, type: scale, unit },
    { at: mlxScaleBytes(scale), type: scale, unit: (-most / 2) * unit },
  ];
};
const f8 = [single(0, 1 / 60)];

/** Where a block's own floats are. */
export const scaleFields: Readonly<Record<BlockType, readonly ScaleField[]>> = {
  F8_G32: f8,
  F8_G128: f8,
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
  IQ1_S: [half(0, 1 / 6.4)],
  IQ1_M: [spread(48, 1 / 6.4)],
  IQ2_XXS: [half(0, 1 / 55)],
  IQ2_XS: [half(0, 1 / 55)],
  IQ2_S: [half(0, 1 / 55)],
  IQ3_XXS: [half(0, 1 / 130)],
  IQ3_S: [half(0, 1 / 130)],
  IQ4_NL: [half(0, 1 / 65)],
  IQ4_XS: [half(0, 1 / 1200)],
  TQ1_0: [half(52, 1 / 0.8)],
  TQ2_0: [half(64, 1 / 1.2)],
  MXFP4: [power(0, 1 / 2.5)],
  NVFP4: [eight(0, 1 / 2.5), eight(1, 1 / 2)],
  ...eachMlxType(mlx),
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
  // Two floats of eight bits are no numbers.
  const isF8 = type === 'F8_G32' || type === 'F8_G128';
  for (let at = 0; at < bytes.length; at++) {
    const byte = Math.floor(random() * 256);
    bytes[at] = isF8 && (byte & 127) === 127 ? 0 : byte;
  }
  for (let block = 0; block < bytes.length; block += blockBytes) {
    const blockSize = size * (0.5 + random());
    for (const field of scaleFields[type]) {
      const [at, value] = [block + field.at, field.unit * blockSize];
      if (field.type === 'spread') writeSpread(view, at, halfBits(value));
      else writeFloat(view, at, field.type, value);
    }
  }
  return bytes;
}

/** Of a half, four bits at a time. */
export function writeSpread(view: DataView, at: number, bits: number): void {
  for (let i = 0; i < 4; i++) {
    const place = at + 2 * i + 1;
    view.setUint8(place, (view.getUint8(place) & 15) | (((bits >> (4 * i)) & 15) << 4));
  }
}

type FloatType = 'F32' | 'F16' | 'BF16' | 'E8M0' | 'E4M3';

function writeFloat(view: DataView, at: number, type: FloatType, value: number): void {
  if (type === 'E8M0') {
    view.setUint8(at, Math.round(Math.log2(value)) + 127);
  } else if (type === 'E4M3') {
    // Positive floats of eight bits ascend with their bits.
    view.setUint8(
      at,
      Math.max(
        0,
        f8Values.findIndex((known) => known >= value),
      ),
    );
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
