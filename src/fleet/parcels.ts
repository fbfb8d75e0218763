// Messages beyond what the message system carries at once, in parts. Parts of one message come in order, or not at all: one
// that misses a part is dropped, as if it had been lost whole.

/** Of all messages that are not whole yet. */
const MOST_BYTES = 256 * 2 ** 20;
const HEADER_BYTES = 16;

/** Numbers parcels, so that those of several senders are told apart. */
export interface Sender {
  readonly id: number;
  parcels: number;
}

/** `whole` as it is sent where it fits; a first byte tells which. */
export function* packed(whole: Uint8Array, mostBytes: number, sender: Sender): Generator<Uint8Array> {
  if (whole.length + 1 <= mostBytes) {
    const alone = new Uint8Array(whole.length + 1);
    alone.set(whole, 1);
    yield alone;
    return;
  }
  const room = mostBytes - HEADER_BYTES - 1;
  const parts = Math.ceil(whole.length / room);
  sender.parcels += 1;
  for (let part = 0; part < parts; part++) {
    const content = whole.subarray(part * room, (part + 1) * room);
    const bytes = new Uint8Array(1 + HEADER_BYTES + content.length);
    const view = new DataView(bytes.buffer);
    bytes[0] = 1;
    [sender.id, sender.parcels, part, parts].forEach((value, i) => {
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

export class Unpacker {
  readonly #unfinished = new Map<string, Unfinished>();
  #bytes = 0;

  /** The message that is whole with this part. */
  take(bytes: Uint8Array): Uint8Array | undefined {
    if (bytes[0] === 0) return bytes.subarray(1);
    if (bytes.length < 1 + HEADER_BYTES) return undefined;
    const view = new DataView(bytes.buffer, bytes.byteOffset);
    const [sender, parcel, part, count] = [1, 5, 9, 13].map((at) => view.getUint32(at)) as [
      number,
      number,
      number,
      number,
    ];
    const key = `${sender}.${parcel}`;
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

  /** The oldest are those whose sender is gone. */
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
