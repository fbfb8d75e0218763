// Reads a GGUF header through a small window of the file. Lengths are checked against the bytes left before
// allocation.

import type { FileReader } from './file-reader.ts';
import { ModelFileError } from './model-file-error.ts';

const WINDOW_BYTES = 2 ** 20;
// The largest vocabularies take some 20 MB. A header's strings weigh several times their bytes once they are
// JavaScript values, so a larger header could exhaust the heap.
const MAX_HEADER_BYTES = 128 * 2 ** 20;

const DAMAGED = 'The file is truncated or damaged: download or convert it again.';

export class GgufCursor {
  readonly #file: FileReader;
  readonly #end: number;
  readonly #window: Buffer;
  #windowStart = 0;
  #windowBytes = 0;
  #position = 0;

  constructor(file: FileReader) {
    this.#file = file;
    this.#end = Math.min(file.size, MAX_HEADER_BYTES);
    this.#window = Buffer.allocUnsafeSlow(Math.min(WINDOW_BYTES, this.#end));
  }

  get position(): number {
    return this.#position;
  }

  uint8(field: string): number {
    return this.#window.readUInt8(this.#take(1, field));
  }

  int8(field: string): number {
    return this.#window.readInt8(this.#take(1, field));
  }

  uint16(field: string): number {
    return this.#window.readUInt16LE(this.#take(2, field));
  }

  int16(field: string): number {
    return this.#window.readInt16LE(this.#take(2, field));
  }

  uint32(field: string): number {
    return this.#window.readUInt32LE(this.#take(4, field));
  }

  int32(field: string): number {
    return this.#window.readInt32LE(this.#take(4, field));
  }

  float32(field: string): number {
    return this.#window.readFloatLE(this.#take(4, field));
  }

  float64(field: string): number {
    return this.#window.readDoubleLE(this.#take(8, field));
  }

  uint64(field: string): bigint {
    return this.#window.readBigUInt64LE(this.#take(8, field));
  }

  int64(field: string): bigint {
    return this.#window.readBigInt64LE(this.#take(8, field));
  }

  /** A 64-bit size, which no real file has beyond 2^53. */
  size(field: string): number {
    const at = this.#take(8, field);
    const size = this.#window.readUInt32LE(at) + this.#window.readUInt32LE(at + 4) * 2 ** 32;
    if (Number.isSafeInteger(size)) return size;
    throw this.fault(field, `holds the impossible size ${this.#window.readBigUInt64LE(at)}`);
  }

  /** A count of items of at least `itemBytes` each, checked against the bytes that are left. */
  count(itemBytes: number, field: string): number {
    const count = this.size(field);
    if (count * itemBytes <= this.#end - this.#position) return count;
    const left = this.#end - this.#position;
    throw this.fault(field, `announces ${count} items, more than the ${left} bytes left can hold`);
  }

  string(field: string): string {
    const length = this.count(1, field);
    if (length > this.#window.length) return this.bytes(length, field).toString('utf8');
    const at = this.#take(length, field);
    return this.#window.toString('utf8', at, at + length);
  }

  /** The next `length` bytes, in memory of their own. */
  bytes(length: number, field: string): Buffer {
    this.#require(length, field);
    const bytes = this.#file.readAt(this.#position, length, field);
    this.#position += length;
    return bytes;
  }

  fault(field: string, problem: string, remedy: string = DAMAGED): ModelFileError {
    return new ModelFileError({ file: this.#file.path, field, problem, remedy });
  }

  /** Moves past `length` bytes, at most a window, and returns where in the window they start. */
  #take(length: number, field: string): number {
    const at = this.#position - this.#windowStart;
    if (at + length <= this.#windowBytes) {
      this.#position += length;
      return at;
    }
    this.#require(length, field);
    const start = this.#position;
    const windowBytes = Math.min(this.#window.length, this.#end - start);
    this.#file.readInto(start, this.#window.subarray(0, windowBytes), field);
    this.#windowStart = start;
    this.#windowBytes = windowBytes;
    this.#position += length;
    return 0;
  }

  #require(length: number, field: string): void {
    const left = this.#end - this.#position;
    if (length <= left) return;
    if (this.#end < this.#file.size) {
      throw this.fault(field, `lies beyond the first ${MAX_HEADER_BYTES} bytes, where no header reaches`);
    }
    throw this.fault(field, `the file ends at byte ${this.#end}, ${length - left} bytes too early`);
  }
}
