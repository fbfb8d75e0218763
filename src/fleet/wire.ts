// How messages look on the wire: MessagePack, with arrays of numbers as what they are. Plain data alone; what is undefined is
// left out.

import { decode, ExtensionCodec, encode } from '@msgpack/msgpack';

type NumberArray = Int32Array | Uint32Array | Uint16Array | Float32Array;

const kinds = [Int32Array, Uint32Array, Uint16Array, Float32Array] as const;

const codec = new ExtensionCodec();
kinds.forEach((Kind, type) => {
  codec.register({
    type,
    encode: (value) => (value instanceof Kind ? bytesOf(value) : null),
    // Copied, since their place in the message need not be aligned.
    decode: (data) => new Kind(new Uint8Array(data).buffer),
  });
});

function bytesOf({ buffer, byteOffset, byteLength }: NumberArray): Uint8Array<ArrayBuffer> {
  return new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength);
}

export function toWire(message: unknown): Uint8Array {
  return encode(message, { extensionCodec: codec, ignoreUndefined: true });
}

/** Throws where the bytes are no message. */
export function fromWire(bytes: Uint8Array): unknown {
  return decode(bytes, { extensionCodec: codec });
}
