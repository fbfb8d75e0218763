// Arrays of numbers, one after the other.

export function joinedFloats(parts: readonly Float32Array[]): Float32Array<ArrayBuffer> {
  return join(new Float32Array(lengthOf(parts)), parts);
}

export function joinedInts(parts: readonly Int32Array[]): Int32Array<ArrayBuffer> {
  return join(new Int32Array(lengthOf(parts)), parts);
}

function lengthOf(parts: readonly { readonly length: number }[]): number {
  return parts.reduce((sum, { length }) => sum + length, 0);
}

function join<Whole extends Float32Array | Int32Array>(
  whole: Whole,
  parts: readonly ArrayLike<number>[],
): Whole {
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
