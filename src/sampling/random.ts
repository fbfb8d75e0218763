// Counter-based randomness: a sample depends on the seed and its position only, so a resumed, preempted or rebatched
// request samples the same tokens. The generator is Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy
// as 1, 2, 3", 2011).

/** 64 bits in two unsigned halves. */
export interface Seed {
  readonly low: number;
  readonly high: number;
}

export function seedFrom(value: bigint): Seed {
  const bits = BigInt.asUintN(64, value);
  return { low: Number(bits & 0xffffffffn), high: Number(bits >> 32n) };
}

/** Samples of one position that must not depend on each other: the token's own, and whether XTC applies. */
export const streams = { token: 0, xtc: 1 } as const;

/** A double in [0, 1) with 53 random bits. */
export function uniformAt(
  seed: Seed,
  position: number,
  choice: number,
  stream: number = streams.token,
): number {
  const [first, second] = philox([position, choice, stream, 0], [seed.low, seed.high]);
  return ((first >>> 5) * 2 ** 26 + (second >>> 6)) / 2 ** 53;
}

type Counter = readonly [number, number, number, number];

const ROUNDS = 10;

export function philox(counter: Counter, key: readonly [number, number]): Counter {
  let [a, b, c, d] = counter;
  let [keyLow, keyHigh] = key;
  for (let round = 0; round < ROUNDS; round++) {
    const upperA = multiplyUpper(a, 0xd2511f53);
    const lowerA = Math.imul(a, 0xd2511f53);
    const upperC = multiplyUpper(c, 0xcd9e8d57);
    const lowerC = Math.imul(c, 0xcd9e8d57);
    [a, b, c, d] = [upperC ^ b ^ keyLow, lowerC, upperA ^ d ^ keyHigh, lowerA];
    keyLow = (keyLow + 0x9e3779b9) | 0;
    keyHigh = (keyHigh + 0xbb67ae85) | 0;
  }
  return [a >>> 0, b >>> 0, c >>> 0, d >>> 0];
}

/** The upper 32 bits of a product of two unsigned 32-bit numbers. */
function multiplyUpper(left: number, right: number): number {
  const leftLow = left & 0xffff;
  const leftHigh = left >>> 16;
  const rightLow = right & 0xffff;
  const rightHigh = right >>> 16;
  const low = leftLow * rightLow;
  const middle = leftHigh * rightLow + Math.floor(low / 0x10000);
  const cross = leftLow * rightHigh + (middle % 0x10000);
  return (leftHigh * rightHigh + Math.floor(middle / 0x10000) + Math.floor(cross / 0x10000)) | 0;
}
