// The shape every block format's decoder has, and the one way they read a byte.

/** Decodes the block that starts at `bytes[at]` into `out` from `to` on. */
export type BlockDecoder = (bytes: Uint8Array, at: number, out: Float32Array, to: number) => void;

/** Callers check the lengths once for a whole run of blocks, so the byte is there. */
export function byteAt(bytes: Uint8Array, at: number): number {
  return bytes[at] as number;
}

export function signedByteAt(bytes: Uint8Array, at: number): number {
  return ((bytes[at] as number) << 24) >> 24;
}
