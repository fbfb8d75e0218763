// Plain floating-point tensors, any number of values at a time.

import { byteAt } from './group.ts';
import { halfAt } from './half.ts';

/** Fills `out` from the start of `bytes`. */
type RunDecoder = (bytes: Uint8Array, out: Float32Array) => void;

// Little-endian machines only, as all that run Node-API addons of this project are.
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
