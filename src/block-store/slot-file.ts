// The file of a saved slot: the blocks of one prefix in a file of its own, each a record as in a segment, and a manifest that says
// what they are. It is written under another name and renamed once it is whole, so that there is never half a file.
//
//   head       magic 24 · mark of the store's key 8
//   records    one after the other, sealed for their owner under the keys of their blocks
//   manifest   a record, too
//   end        offset of the manifest 8 · its bytes 4 · checksum of both 4

import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { MARK_BYTES } from './index-slots.ts';
import { RECORD_OVERHEAD_BYTES, type Sealing } from './sealing.ts';
import { segmentName } from './segments.ts';
import type { OpenFile, StoreFiles } from './store-files.ts';

const MAGIC = Buffer.from('chairlift saved slot 1\n\0');
const HEAD_BYTES = MAGIC.length + MARK_BYTES;
const END_BYTES = 16;
const CHECKSUM_BYTES = 4;
const MOST_MANIFEST_BYTES = 256 * 2 ** 20;
const MANIFEST_KEY = createHash('sha256').update('chairlift saved slot: manifest').digest();

/** Begins with a dot, which no name of a saved slot does, and says when it was made. */
const UNFINISHED = /^\.([0-9a-f]{12})-[0-9a-f]{16}$/;
const UNFINISHED_MS = 24 * 3_600_000;

/** `foreign`: another key's, or sealed with another store's key. */
export type SlotFileFailure = 'absent' | 'damaged' | 'foreign';

export class SlotFileError extends Error {
  override readonly name = 'SlotFileError';
  readonly failure: SlotFileFailure;

  constructor(failure: SlotFileFailure, message: string) {
    super(message);
    this.failure = failure;
  }
}

export interface SlotFilePlace {
  /** For the files of one owner; is made where it is absent. */
  readonly folder: string;
  readonly name: string;
  /** Whose blocks they are. */
  readonly owner: string;
}

export interface SlotRecord {
  /** The block's, 32 bytes. */
  readonly key: Uint8Array;
  readonly bytes: Uint8Array;
}

/** What a file of these records comes to, without its manifest. */
export function recordBytes(sizes: readonly number[]): number {
  return sizes.reduce((sum, bytes) => sum + bytes + RECORD_OVERHEAD_BYTES, HEAD_BYTES);
}

export class SlotFileWriter {
  readonly #files: StoreFiles;
  readonly #place: SlotFilePlace;
  readonly #sealing: Sealing;
  readonly #mark: Buffer;
  readonly #path: string;
  #file: OpenFile | undefined;
  #bytes = 0;
  #isNamed = false;

  /** Throws where the folder cannot be written to. */
  constructor(files: StoreFiles, place: SlotFilePlace, sealing: Sealing, nowMs: number) {
    this.#files = files;
    this.#place = place;
    this.#sealing = sealing;
    this.#mark = sealing.tenantMark(place.owner);
    files.makeFolder(place.folder);
    removeUnfinished(files, place.folder, nowMs);
    this.#path = join(place.folder, `.${segmentName(nowMs)}`);
    this.#file = files.create(this.#path);
    if (this.#file === undefined) throw new Error(`${this.#path} exists already`);
    try {
      this.#write([MAGIC, sealing.mark]);
    } catch (error) {
      this.abort();
      throw error;
    }
  }

  add({ key, bytes }: SlotRecord): void {
    this.#write(this.#sealing.seal(key, this.#mark, bytes).parts);
  }

  /** The file has its name, and outlives a loss of power, once this returns its size. */
  finish(manifest: Uint8Array): number {
    const offset = this.#bytes;
    this.add({ key: MANIFEST_KEY, bytes: manifest });
    this.#write([endOf(offset, this.#bytes - offset)]);
    const { folder, name } = this.#place;
    this.#files.sync(this.#open);
    this.#close();
    this.#files.rename(this.#path, join(folder, name));
    this.#isNamed = true;
    this.#files.syncFolder(folder);
    return this.#bytes;
  }

  /** Leaves nothing of a file that was not finished. */
  abort(): void {
    if (this.#isNamed) return;
    if (this.#file !== undefined) this.#close();
    this.#files.remove(this.#path);
  }

  get #open(): OpenFile {
    if (this.#file === undefined) throw new Error('the file is closed');
    return this.#file;
  }

  #close(): void {
    this.#files.close(this.#open);
    this.#file = undefined;
  }

  #write(parts: readonly Uint8Array[]): void {
    this.#files.write(this.#open, parts, this.#bytes);
    this.#bytes += parts.reduce((sum, { length }) => sum + length, 0);
  }
}

/** Left by processes that were killed; those of others that write now are younger. */
function removeUnfinished(files: StoreFiles, folder: string, nowMs: number): void {
  for (const name of files.list(folder)) {
    const [, begun] = UNFINISHED.exec(name) ?? [];
    if (begun === undefined || nowMs - Number.parseInt(begun, 16) < UNFINISHED_MS) continue;
    files.remove(join(folder, name));
  }
}

export class SlotFileReader {
  readonly #files: StoreFiles;
  readonly #name: string;
  readonly #sealing: Sealing;
  readonly #mark: Buffer;
  readonly #file: OpenFile;
  readonly #manifestAt: number;
  /** Of the whole file. */
  readonly bytes: number;
  readonly manifest: Uint8Array;
  #next = HEAD_BYTES;

  /** Throws a SlotFileError where there is no such file, or it is not whole, or another key's. */
  constructor(files: StoreFiles, { folder, name, owner }: SlotFilePlace, sealing: Sealing) {
    this.#files = files;
    this.#name = name;
    this.#sealing = sealing;
    this.#mark = sealing.tenantMark(owner);
    const file = files.open(join(folder, name), 'read');
    if (file === undefined) throw new SlotFileError('absent', `there is no saved slot '${name}'`);
    this.#file = file;
    try {
      this.bytes = files.state(file).bytes;
      this.#checkHead();
      const { offset, bytes } = this.#readEnd();
      this.#manifestAt = offset;
      this.manifest = this.#unsealed(MANIFEST_KEY, this.#read(offset, bytes));
    } catch (error) {
      files.close(file);
      throw error;
    }
  }

  /** Bytes of all records but the manifest's. */
  get recordBytes(): number {
    return this.#manifestAt;
  }

  /** The next record; `bytes`: of its block. */
  take(key: Uint8Array, bytes: number): Uint8Array {
    const size = bytes + RECORD_OVERHEAD_BYTES;
    if (this.#next + size > this.#manifestAt) throw this.#damaged('it has fewer blocks than it says');
    const block = this.#unsealed(key, this.#read(this.#next, size));
    this.#next += size;
    return block;
  }

  close(): void {
    this.#files.close(this.#file);
  }

  #checkHead(): void {
    if (this.bytes < HEAD_BYTES + END_BYTES) throw this.#damaged('it is too short');
    const head = Buffer.from(this.#read(0, HEAD_BYTES));
    if (!head.subarray(0, MAGIC.length).equals(MAGIC)) throw this.#damaged('it is no saved slot');
    if (head.subarray(MAGIC.length).equals(this.#sealing.mark)) return;
    throw new SlotFileError('foreign', `the saved slot '${this.#name}' was sealed with another store's key`);
  }

  #readEnd(): { readonly offset: number; readonly bytes: number } {
    const end = Buffer.from(this.#read(this.bytes - END_BYTES, END_BYTES));
    const offset = end.readDoubleLE(0);
    const bytes = end.readUInt32LE(8);
    const isWhole = endOf(offset, bytes).equals(end) && offset + bytes + END_BYTES === this.bytes;
    if (!isWhole || bytes > MOST_MANIFEST_BYTES) throw this.#damaged('its end is missing');
    return { offset, bytes };
  }

  #unsealed(key: Uint8Array, record: Uint8Array): Uint8Array {
    if (!this.#mark.equals(record.subarray(0, this.#mark.length))) {
      // A changed byte looks alike; whose it is cannot be told then.
      throw new SlotFileError(
        'foreign',
        `the saved slot '${this.#name}' is damaged, or was saved by another key`,
      );
    }
    const block = this.#sealing.unseal(key, record);
    if (typeof block === 'string') throw this.#damaged('a block of it was changed, or it is another model’s');
    return block;
  }

  #read(position: number, bytes: number): Uint8Array {
    const into = new Uint8Array(bytes);
    if (this.#files.read(this.#file, into, position) !== bytes) throw this.#damaged('it is too short');
    return into;
  }

  #damaged(problem: string): SlotFileError {
    return new SlotFileError('damaged', `the saved slot '${this.#name}' is damaged: ${problem}`);
  }
}

function endOf(offset: number, bytes: number): Buffer {
  const end = Buffer.alloc(END_BYTES);
  end.writeDoubleLE(offset, 0);
  end.writeUInt32LE(bytes, 8);
  const body = end.subarray(0, END_BYTES - CHECKSUM_BYTES);
  end.set(createHash('sha256').update(body).digest().subarray(0, CHECKSUM_BYTES), body.length);
  return end;
}
