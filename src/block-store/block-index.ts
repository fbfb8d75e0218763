// Where the blocks of a model lie, in memory: an open-addressed table from keys to entries in typed arrays, so that a million
// blocks are 88 MB that no garbage collector walks. Entries of a segment are linked, since segments go as a whole.

import { BLOCK_KEY_BYTES, type BlockLabel, type LabelListener } from './block-tier.ts';
import type { IndexSlot } from './index-slots.ts';
import type { BlockPlace } from './record-reader.ts';
import { RECORD_OVERHEAD_BYTES } from './sealing.ts';

/** A block's number while the index has it. */
export type EntryId = number;

const NONE = -1;
const LEAST_ENTRIES = 64;

interface IndexedSegment {
  readonly name: string;
  first: EntryId;
}

export class BlockIndex {
  #capacity = 0;
  #keys = new Uint8Array(0);
  #segmentOf = new Int32Array(0);
  #offsets = new Float64Array(0);
  #bytes = new Uint32Array(0);
  #created = new Uint32Array(0);
  /** High and low, zeros where there is none. */
  #labels = new Int32Array(0);
  #next = new Int32Array(0);
  #previous = new Int32Array(0);
  /** Entry ids by hash; twice as many places as entries. */
  #table = new Int32Array(0);
  #used = 0;
  /** Linked by #next. */
  #free: EntryId = NONE;
  readonly #segments: (IndexedSegment | undefined)[] = [];
  readonly #numbers = new Map<string, number>();
  #blocks = 0;
  #blockBytes = 0;
  #listener: LabelListener | undefined;

  get blocks(): number {
    return this.#blocks;
  }

  /** Of the blocks themselves. */
  get bytes(): number {
    return this.#blockBytes;
  }

  /** See BlockTier. */
  followLabels(listener: LabelListener | undefined): void {
    this.#listener = listener;
    if (listener === undefined) return;
    for (const id of this.#table) {
      const label = id === NONE ? undefined : this.labelOf(id);
      if (label !== undefined) listener.entered(label);
    }
  }

  labelOf(id: EntryId): BlockLabel | undefined {
    const [high, low] = [this.#labels[2 * id] as number, this.#labels[2 * id + 1] as number];
    return high === 0 && low === 0 ? undefined : { high, low };
  }

  find(key: Uint8Array): EntryId | undefined {
    const id = this.#capacity === 0 ? NONE : (this.#table[this.#placeOf(key)] as number);
    return id === NONE ? undefined : id;
  }

  place(id: EntryId): BlockPlace {
    const segment = this.#segments[this.#segmentOf[id] as number] as IndexedSegment;
    return {
      segment: segment.name,
      offset: this.#offsets[id] as number,
      bytes: this.#bytes[id] as number,
    };
  }

  createdS(id: EntryId): number {
    return this.#created[id] as number;
  }

  /** Of the block itself. */
  bytesOf(id: EntryId): number {
    return (this.#bytes[id] as number) - RECORD_OVERHEAD_BYTES;
  }

  /** A block that is here twice is found where it was written last. */
  add(segment: string, slot: IndexSlot): void {
    const known = this.find(slot.key);
    if (known !== undefined && this.place(known).segment > segment) return;
    if (known !== undefined) this.remove(known);
    const number = this.#numberOf(segment);
    const id = this.#take();
    this.#keys.set(slot.key, id * BLOCK_KEY_BYTES);
    this.#offsets[id] = slot.offset;
    this.#bytes[id] = slot.bytes;
    this.#created[id] = slot.createdS;
    this.#labels[2 * id] = slot.label?.high ?? 0;
    this.#labels[2 * id + 1] = slot.label?.low ?? 0;
    this.#link(id, number);
    this.#table[this.#placeOf(slot.key)] = id;
    this.#blocks++;
    this.#blockBytes += this.bytesOf(id);
    if (slot.label !== undefined) this.#listener?.entered(slot.label);
  }

  remove(id: EntryId): void {
    const label = this.labelOf(id);
    if (label !== undefined) this.#listener?.left(label);
    this.#clearPlace(this.#placeOf(this.#keyOf(id)));
    this.#unlink(id);
    this.#blocks--;
    this.#blockBytes -= this.bytesOf(id);
    this.#next[id] = this.#free;
    this.#free = id;
  }

  /** How many blocks went with it. */
  removeSegment(name: string): number {
    const number = this.#numbers.get(name);
    if (number === undefined) return 0;
    const segment = this.#segments[number] as IndexedSegment;
    let removed = 0;
    for (; segment.first !== NONE; removed++) this.remove(segment.first);
    this.#numbers.delete(name);
    this.#segments[number] = undefined;
    return removed;
  }

  #keyOf(id: EntryId): Uint8Array {
    return this.#keys.subarray(id * BLOCK_KEY_BYTES, (id + 1) * BLOCK_KEY_BYTES);
  }

  #numberOf(name: string): number {
    const known = this.#numbers.get(name);
    if (known !== undefined) return known;
    const unused = this.#segments.indexOf(undefined);
    const number = unused === -1 ? this.#segments.length : unused;
    this.#segments[number] = { name, first: NONE };
    this.#numbers.set(name, number);
    return number;
  }

  #link(id: EntryId, number: number): void {
    const segment = this.#segments[number] as IndexedSegment;
    this.#segmentOf[id] = number;
    this.#previous[id] = NONE;
    this.#next[id] = segment.first;
    if (segment.first !== NONE) this.#previous[segment.first] = id;
    segment.first = id;
  }

  #unlink(id: EntryId): void {
    const [next, previous] = [this.#next[id] as number, this.#previous[id] as number];
    if (next !== NONE) this.#previous[next] = previous;
    if (previous !== NONE) this.#next[previous] = next;
    else (this.#segments[this.#segmentOf[id] as number] as IndexedSegment).first = next;
  }

  #take(): EntryId {
    if (this.#free !== NONE) {
      const id = this.#free;
      this.#free = this.#next[id] as number;
      return id;
    }
    if (this.#used === this.#capacity) this.#grow();
    return this.#used++;
  }

  #grow(): void {
    const capacity = Math.max(LEAST_ENTRIES, 2 * this.#capacity);
    const grown = <T extends Uint8Array | Int32Array | Uint32Array | Float64Array>(old: T, larger: T): T => {
      larger.set(old);
      return larger;
    };
    this.#keys = grown(this.#keys, new Uint8Array(capacity * BLOCK_KEY_BYTES));
    this.#segmentOf = grown(this.#segmentOf, new Int32Array(capacity));
    this.#offsets = grown(this.#offsets, new Float64Array(capacity));
    this.#bytes = grown(this.#bytes, new Uint32Array(capacity));
    this.#created = grown(this.#created, new Uint32Array(capacity));
    this.#labels = grown(this.#labels, new Int32Array(2 * capacity));
    this.#next = grown(this.#next, new Int32Array(capacity));
    this.#previous = grown(this.#previous, new Int32Array(capacity));
    const ids = this.#table.filter((id) => id !== NONE);
    this.#capacity = capacity;
    this.#table = new Int32Array(2 * capacity).fill(NONE);
    for (const id of ids) this.#table[this.#placeOf(this.#keyOf(id))] = id;
  }

  /** Of the key's entry, or where it would be. Keys are hashes: any of their bytes will do. */
  #placeOf(key: Uint8Array): number {
    const mask = this.#table.length - 1;
    let place = firstPlace(key) & mask;
    for (;;) {
      const id = this.#table[place] as number;
      if (id === NONE || this.#isKeyOf(id, key)) return place;
      place = (place + 1) & mask;
    }
  }

  #isKeyOf(id: EntryId, key: Uint8Array): boolean {
    const begin = id * BLOCK_KEY_BYTES;
    for (let at = 0; at < BLOCK_KEY_BYTES; at++) if (this.#keys[begin + at] !== key[at]) return false;
    return true;
  }

  /** Entries after it that were moved on by it move back. */
  #clearPlace(place: number): void {
    const mask = this.#table.length - 1;
    let hole = place;
    for (let at = (hole + 1) & mask; this.#table[at] !== NONE; at = (at + 1) & mask) {
      const id = this.#table[at] as number;
      const wanted = firstPlace(this.#keyOf(id)) & mask;
      if (((at - wanted) & mask) < ((at - hole) & mask)) continue;
      this.#table[hole] = id;
      hole = at;
    }
    this.#table[hole] = NONE;
  }
}

function firstPlace(key: Uint8Array): number {
  return (
    (key[0] as number) | ((key[1] as number) << 8) | ((key[2] as number) << 16) | ((key[3] as number) << 24)
  );
}
