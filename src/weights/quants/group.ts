// Thirty-two weights as integers with scales and minimums. Every block format is read into this shape, so that each
// layout has one reader for floats and codes.

/** `weight = scale * value + minimum`, with one scale and minimum for each half. */
export interface Group {
  /** From -128 to 255. */
  readonly values: Int16Array;
  readonly scales: Float64Array;
  readonly minimums: Float64Array;
}

export const GROUP_SIZE = 32;

/** Reads group number `group` of the block at `bytes[at]`. */
export type GroupReader = (bytes: Uint8Array, at: number, group: number, to: Group) => void;

export function emptyGroup(): Group {
  return {
    values: new Int16Array(GROUP_SIZE),
    scales: new Float64Array(2),
    minimums: new Float64Array(2),
  };
}

export function setScale({ scales, minimums }: Group, scale: number, minimum: number): void {
  scales[0] = scale;
  scales[1] = scale;
  minimums[0] = minimum;
  minimums[1] = minimum;
}

export function groupFloats({ values, scales, minimums }: Group, out: Float32Array, to: number): void {
  for (let half = 0; half < 2; half++) {
    const scale = scales[half] as number;
    const minimum = minimums[half] as number;
    for (let i = 16 * half; i < 16 * half + 16; i++) out[to + i] = scale * (values[i] as number) + minimum;
  }
}

/** Callers have checked the length. */
export function byteAt(bytes: Uint8Array, at: number): number {
  return bytes[at] as number;
}

export function signedByteAt(bytes: Uint8Array, at: number): number {
  return ((bytes[at] as number) << 24) >> 24;
}

/** Little-endian. */
export function shortAt(bytes: Uint8Array, at: number): number {
  return byteAt(bytes, at) | (byteAt(bytes, at + 1) << 8);
}

/** Little-endian. */
export function wordAt(bytes: Uint8Array, at: number): number {
  return (shortAt(bytes, at) | (shortAt(bytes, at + 2) << 16)) >>> 0;
}
