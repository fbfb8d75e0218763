// Floating-point tensors of 32, 16 and 8 bits, read and written exactly.

import { byteAt } from './group.ts';

// Values of a half are (1024 + mantissa) * 2^(exponent - 25); subnormal ones are mantissa * 2^-24.
const powersOfTwo = Float64Array.from({ length: 31 }, (_, exponent) => 2 ** (exponent - 25));

export function halfToNumber(bits: number): number {
  const exponent = (bits >> 10) & 31;
  const mantissa = bits & 1023;
  const sign = bits & 0x8000 ? -1 : 1;
  if (exponent === 0) return sign * mantissa * 2 ** -24;
  if (exponent === 31) return mantissa === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return sign * (1024 + mantissa) * (powersOfTwo[exponent] as number);
}

/** Little-endian. */
export function halfAt(bytes: Uint8Array, at: number): number {
  return halfToNumber((bytes[at] as number) | ((bytes[at + 1] as number) << 8));
}

const float = new Float32Array(1);
const word = new Uint32Array(float.buffer);

/** Rounds to the nearest half, ties to even. Throws where it is too large. */
export function toHalf(value: number): number {
  float[0] = value;
  const bits = word[0] as number;
  const sign = (bits >>> 16) & 0x8000;
  const magnitude = bits & 0x7fffffff;
  // Below the smallest normal half the steps are of 2^-24; adding 0.5 rounds to them.
  if (magnitude < 0x38800000) {
    float[0] = Math.abs(value) + 0.5;
    return sign | ((word[0] as number) - 0x3f000000);
  }
  const rounded = magnitude + 0xfff + ((magnitude >>> 13) & 1);
  const half = (rounded - 0x38000000) >>> 13;
  if (half >= 0x7c00) throw new Error(`${value} is too large for a half`);
  return sign | half;
}

type RunDecoder = (bytes: Uint8Array, out: Float32Array) => void;

// Requires a little-endian machine, as the addon does.
export const decodeF32: RunDecoder = (bytes, out) => {
  new Uint8Array(out.buffer, out.byteOffset, out.byteLength).set(bytes);
};

export const decodeF16: RunDecoder = (bytes, out) => {
  for (let i = 0; i < out.length; i++) out[i] = halfAt(bytes, 2 * i);
};

/** A BF16 is the upper half of a float32's bits. */
export const decodeBF16: RunDecoder = (bytes, out) => {
  const bits = new Uint32Array(out.buffer, out.byteOffset, out.length);
  for (let i = 0; i < out.length; i++) {
    bits[i] = (byteAt(bytes, 2 * i) << 16) | (byteAt(bytes, 2 * i + 1) << 24);
  }
};

/** Undefined where a value is not finite in the type. */
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

// The first numbers that round to infinity.
const HALF_LIMIT = 65_520;
const BFLOAT_LIMIT = (2 - 2 ** -8) * 2 ** 127;

/** Rounds to the nearest BF16, ties to even. */
function toBfloat(value: number): number {
  float[0] = value;
  const bits = word[0] as number;
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}

/** Sign, four bits of exponent, three of mantissa; no infinities, one NaN of each sign. */
export const f8Values = Float32Array.from({ length: 256 }, (_, bits) => {
  const [exponent, mantissa] = [(bits >> 3) & 15, bits & 7];
  if ((bits & 127) === 127) return Number.NaN;
  const magnitude = exponent === 0 ? mantissa * 2 ** -9 : (8 + mantissa) * 2 ** (exponent - 10);
  return bits < 128 ? magnitude : -magnitude;
});

/** Groups of { float32 scale; uint8 q[groupSize] }. */
export function decodeF8(groupSize: number, bytes: Uint8Array, out: Float32Array): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let to = 0, at = 0; to < out.length; at += 4 + groupSize) {
    const scale = view.getFloat32(at, true);
    for (let i = 0; i < groupSize; i++) out[to++] = scale * (f8Values[byteAt(bytes, at + 4 + i)] as number);
  }
}
