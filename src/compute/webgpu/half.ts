// A number as the bits of the nearest IEEE half, ties to even.

const float = new Float32Array(1);
const word = new Uint32Array(float.buffer);

/** Throws where the number is too large for a half. */
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
