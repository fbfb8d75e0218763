// IEEE half precision to a number, exactly.

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
