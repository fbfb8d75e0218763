// Reads the indexes of a model's segments, whoever writes them: all at first, later what was added. A slot that is torn at the end
// of an index may be one that another process is just writing, so it is looked at a few times more.

import { Buffer } from 'node:buffer';
import { type IndexSlot, isOwnHeader, isZero, readSlot, SLOT_BYTES } from './index-slots.ts';
import type { Sealing } from './sealing.ts';
import { blocksPath, indexPath, listSegments } from './segments.ts';
import type { StoreFiles } from './store-files.ts';

/** Looks at an end that makes no sense and does not grow. */
const LOOKS = 3;

export interface FoundSegment {
  readonly segment: string;
  readonly slots: readonly IndexSlot[];
}

export interface IndexChanges {
  readonly found: readonly FoundSegment[];
  readonly gone: readonly string[];
  /** Slots that are no slots any more. */
  readonly damaged: number;
}

interface ParsedSlots {
  readonly slots: readonly IndexSlot[];
  /** Where they lie in the index. */
  readonly numbers: readonly number[];
  /** Before the last good one. What comes after it may be on its way. */
  readonly damaged: number;
}

interface Followed {
  /** Bytes of slots that need not be read again. */
  readBytes: number;
  seenBytes: number;
  looks: number;
}

export class IndexReader {
  readonly #files: StoreFiles;
  readonly #folder: string;
  readonly #model: string;
  readonly #sealing: Sealing;
  readonly #followed = new Map<string, Followed>();
  readonly #own = new Set<string>();

  constructor(files: StoreFiles, folder: string, model: string, sealing: Sealing) {
    this.#files = files;
    this.#folder = folder;
    this.#model = model;
    this.#sealing = sealing;
  }

  /** What this process writes it knows. */
  skip(segment: string): void {
    this.#own.add(segment);
  }

  changes(): IndexChanges {
    const names = listSegments(this.#files, this.#folder, this.#model);
    const found: FoundSegment[] = [];
    let damaged = 0;
    for (const name of names) {
      if (this.#own.has(name)) continue;
      const more = this.#readMore(name);
      if (more.slots.length > 0) found.push({ segment: name, slots: more.slots });
      damaged += more.damaged;
    }
    return { found, gone: this.#forgetAllBut(new Set(names)), damaged };
  }

  /** All of a segment; undefined where it is none of this store and program. */
  read(name: string): ParsedSlots | undefined {
    const bytes = this.#bytesFrom(name, 0);
    if (!isOwnHeader(bytes, this.#sealing.mark)) return undefined;
    return this.#parse(name, bytes.subarray(SLOT_BYTES), 1);
  }

  #readMore(name: string): Pick<ParsedSlots, 'slots' | 'damaged'> {
    const followed = this.#followed.get(name) ?? { readBytes: 0, seenBytes: -1, looks: 0 };
    this.#followed.set(name, followed);
    const bytesNow = this.#files.bytesOf(indexPath(this.#folder, this.#model, name)) ?? 0;
    followed.looks = bytesNow === followed.seenBytes ? followed.looks + 1 : 0;
    followed.seenBytes = bytesNow;
    if (bytesNow - followed.readBytes < SLOT_BYTES || followed.looks > LOOKS)
      return { slots: [], damaged: 0 };
    let bytes = this.#bytesFrom(name, followed.readBytes);
    if (followed.readBytes === 0) {
      if (!isOwnHeader(bytes, this.#sealing.mark)) return { slots: [], damaged: 0 };
      bytes = bytes.subarray(SLOT_BYTES);
      followed.readBytes = SLOT_BYTES;
    }
    const parsed = this.#parse(name, bytes, followed.readBytes / SLOT_BYTES);
    const last = parsed.numbers.at(-1);
    if (last !== undefined) followed.readBytes = (last + 1) * SLOT_BYTES;
    return parsed;
  }

  #bytesFrom(name: string, position: number): Buffer {
    const path = indexPath(this.#folder, this.#model, name);
    const file = this.#files.open(path, 'read');
    if (file === undefined) return Buffer.alloc(0);
    try {
      const bytes = Buffer.alloc(Math.max(0, this.#files.state(file).bytes - position));
      return bytes.subarray(0, this.#files.read(file, bytes, position));
    } finally {
      this.#files.close(file);
    }
  }

  #parse(name: string, bytes: Buffer, firstSlot: number): ParsedSlots {
    const count = Math.floor(bytes.length / SLOT_BYTES);
    const plain = this.#sealing.cipherSlots(name, firstSlot, bytes.subarray(0, count * SLOT_BYTES));
    const blockBytes = this.#files.bytesOf(blocksPath(this.#folder, this.#model, name)) ?? 0;
    const slots: IndexSlot[] = [];
    const numbers: number[] = [];
    let [damaged, damagedSince] = [0, 0];
    for (let index = 0; index < count; index++) {
      const at = index * SLOT_BYTES;
      // The block was removed.
      if (isZero(bytes, at, at + SLOT_BYTES)) continue;
      const slot = readSlot(plain, at);
      if (slot === undefined || slot.offset + slot.bytes > blockBytes) {
        damagedSince++;
        continue;
      }
      slots.push(slot);
      numbers.push(firstSlot + index);
      damaged += damagedSince;
      damagedSince = 0;
    }
    return { slots, numbers, damaged };
  }

  #forgetAllBut(names: ReadonlySet<string>): string[] {
    const gone = [...this.#followed.keys(), ...this.#own].filter((name) => !names.has(name));
    for (const name of gone) {
      this.#followed.delete(name);
      this.#own.delete(name);
    }
    return gone;
  }
}
