// IEEE half precision to a number, exactly, and back.

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

/** The half stored little-endian at `at`. */
export function halfAt(bytes: Uint8Array, at: number): number {
  return halfToNumber((bytes[at] as number) | ((bytes[at + 1] as number) << 8));
}

const float = new Float32Array(1);
const word = new Uint32Array(float.buffer);

/** The bits of the nearest half, ties to even. Throws where the number is too large for a half. */
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
