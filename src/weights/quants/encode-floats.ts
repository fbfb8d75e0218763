// Float32 as plain floating-point tensors store it.

import { toHalf } from './half.ts';

/** What each value is in bits of the type; undefined where one is no finite number of it. */
export function encodeFloats(
  type: 'F32' | 'F16' | 'BF16',
  values: Float32Array,
): Uint16Array | Float32Array | undefined {
  const limit = { F32: Number.POSITIVE_INFINITY, F16: HALF_LIMIT, BF16: BFLOAT_LIMIT }[type];
  for (let i = 0; i < values.length; i++) {
    if (!(Math.abs(values[i] as number) < limit)) return undefined;
  }
  if (type === 'F32') return values;
  const bits = new Uint16Array(values.length);
  const encode = type === 'F16' ? toHalf : toBfloat;
  for (let i = 0; i < values.length; i++) bits[i] = encode(values[i] as number);
  return bits;
}

// The first numbers that would be rounded to infinity.
const HALF_LIMIT = 65_520;
const BFLOAT_LIMIT = (2 - 2 ** -8) * 2 ** 127;

const float = new Float32Array(1);
const word = new Uint32Array(float.buffer);

/** The bits of the nearest BF16, ties to even. */
function toBfloat(value: number): number {
  float[0] = value;
  const bits = word[0] as number;
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}
