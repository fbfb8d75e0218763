// How messages look on the wire: MessagePack, with arrays of numbers as what they are; what is undefined is left out. Messages
// larger than the message system carries go in chunks, which arrive in order or not at all: a message that misses a chunk is
// dropped, as if it had been lost whole.

import { Decoder, Encoder, ExtensionCodec } from '@msgpack/msgpack';

type NumberArray = Int32Array | Uint32Array | Uint16Array | Float32Array;

const kinds = [Int32Array, Uint32Array, Uint16Array, Float32Array] as const;

const codec = new ExtensionCodec();
kinds.forEach((Kind, type) => {
  codec.register({
    type,
    encode: (value) => (value instanceof Kind ? bytesOf(value) : null),
    // Copied, since arrays in the message need not be aligned.
    decode: (data) => new Kind(new Uint8Array(data).buffer),
  });
});

function bytesOf({ buffer, byteOffset, byteLength }: NumberArray): Uint8Array<ArrayBuffer> {
  return new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength);
}

const newEncoder = () => new Encoder({ extensionCodec: codec, ignoreUndefined: true });
/** An encoder keeps the largest buffer that it needed. */
const MOST_KEPT_BYTES = 2 ** 20;
// Made once: they cost more than most messages.
let encoder = newEncoder();
const decoder = new Decoder({ extensionCodec: codec });

export function toWire(message: unknown): Uint8Array {
  const bytes = encoder.encode(message);
  if (bytes.length > MOST_KEPT_BYTES) encoder = newEncoder();
  return bytes;
}

/** How long it is on the wire. */
export function wireBytes(message: unknown): number {
  return encoder.encodeSharedRef(message).length;
}

/** Throws where the bytes are no message. */
export function fromWire(bytes: Uint8Array): unknown {
  return decoder.decode(bytes);
}

/** For all incomplete messages together. */
const MOST_BYTES = 256 * 2 ** 20;
const HEADER_BYTES = 16;

/** Numbers messages, so that those of several senders are distinct. */
export interface Sender {
  readonly id: number;
  messages: number;
}

/** The first byte is 0 for a whole message and 1 for a chunk. */
export function* inChunks(whole: Uint8Array, mostBytes: number, sender: Sender): Generator<Uint8Array> {
  if (whole.length + 1 <= mostBytes) {
    const alone = new Uint8Array(whole.length + 1);
    alone.set(whole, 1);
    yield alone;
    return;
  }
  const room = mostBytes - HEADER_BYTES - 1;
  const parts = Math.ceil(whole.length / room);
  sender.messages += 1;
  for (let part = 0; part < parts; part++) {
    const content = whole.subarray(part * room, (part + 1) * room);
    const bytes = new Uint8Array(1 + HEADER_BYTES + content.length);
    const view = new DataView(bytes.buffer);
    bytes[0] = 1;
    [sender.id, sender.messages, part, parts].forEach((value, i) => {
      view.setUint32(1 + 4 * i, value >>> 0);
    });
    bytes.set(content, 1 + HEADER_BYTES);
    yield bytes;
  }
}

interface Unfinished {
  readonly parts: Uint8Array[];
  readonly count: number;
  bytes: number;
}

export class ChunkReader {
  readonly #unfinished = new Map<string, Unfinished>();
  #bytes = 0;

  /** Returns the message that this chunk completes. */
  take(bytes: Uint8Array): Uint8Array | undefined {
    if (bytes[0] === 0) return bytes.subarray(1);
    if (bytes.length < 1 + HEADER_BYTES) return undefined;
    const view = new DataView(bytes.buffer, bytes.byteOffset);
    const [sender, message, part, count] = [1, 5, 9, 13].map((at) => view.getUint32(at)) as [
      number,
      number,
      number,
      number,
    ];
    const key = `${sender}.${message}`;
    const one = part === 0 ? { parts: [], count, bytes: 0 } : this.#unfinished.get(key);
    if (one === undefined || one.parts.length !== part || one.count !== count) {
      this.#drop(key);
      return undefined;
    }
    const content = bytes.slice(1 + HEADER_BYTES);
    one.parts.push(content);
    one.bytes += content.length;
    this.#bytes += content.length;
    this.#unfinished.set(key, one);
    if (part + 1 === count) {
      this.#drop(key);
      return Buffer.concat(one.parts);
    }
    this.#makeRoom(key);
    return undefined;
  }

  /** The oldest are probably those of senders that are gone. */
  #makeRoom(kept: string): void {
    for (const key of this.#unfinished.keys()) {
      if (this.#bytes <= MOST_BYTES) return;
      if (key !== kept) this.#drop(key);
    }
  }

  #drop(key: string): void {
    this.#bytes -= this.#unfinished.get(key)?.bytes ?? 0;
    this.#unfinished.delete(key);
  }
}
