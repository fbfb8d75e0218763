// Which keys a tier holds, as a worker knows them: 64 bits each in typed arrays, listed in pieces while they change.

import { KEY_LANES } from '../../engine/cache/prefix-key.ts';

const NONE = -1;
const FIRST_KEYS = 64;

export class KeySet {
  readonly #most: number;
  #size = 0;
  #keys = new Int32Array(FIRST_KEYS * KEY_LANES);
  /** Places of keys by hash; twice as many as there is room for keys. */
  #table = new Int32Array(2 * FIRST_KEYS).fill(NONE);

  /** What is added beyond `most` is not known. */
  constructor(most: number) {
    this.#most = most;
  }

  get size(): number {
    return this.#size;
  }

  /** False where it was there already, or there is no room. */
  add(high: number, low: number): boolean {
    if (this.#size === this.#most || this.#table[this.#slotOf(high, low)] !== NONE) return false;
    if (this.#size * KEY_LANES === this.#keys.length) this.#grow();
    this.#put(this.#size, high, low);
    this.#table[this.#slotOf(high, low)] = this.#size;
    this.#size += 1;
    return true;
  }

  /** False where it was not there. The last key takes its place. */
  delete(high: number, low: number): boolean {
    const slot = this.#slotOf(high, low);
    const place = this.#table[slot] as number;
    if (place === NONE) return false;
    this.#clear(slot);
    this.#size -= 1;
    if (place === this.#size) return true;
    const [lastHigh, lastLow] = this.#at(this.#size);
    this.#table[this.#slotOf(lastHigh, lastLow)] = place;
    this.#put(place, lastHigh, lastLow);
    return true;
  }

  /**
   * At most `count` keys before place `before`, and where to go on; undefined after the last of them. From the end to the front: a key that
   * takes the place of another was listed already, or has come since.
   */
  page(count: number, before = this.#size): { readonly keys: Int32Array; readonly next: number | undefined } {
    const to = Math.min(before, this.#size);
    const from = Math.max(0, to - count);
    const keys = this.#keys.slice(from * KEY_LANES, to * KEY_LANES);
    return { keys, next: from === 0 ? undefined : from };
  }

  #at(place: number): [high: number, low: number] {
    return [this.#keys[place * KEY_LANES] as number, this.#keys[place * KEY_LANES + 1] as number];
  }

  #put(place: number, high: number, low: number): void {
    this.#keys[place * KEY_LANES] = high;
    this.#keys[place * KEY_LANES + 1] = low;
  }

  /** Of the key, or where it would be. */
  #slotOf(high: number, low: number): number {
    const mask = this.#table.length - 1;
    let slot = (high ^ low) & mask;
    for (;;) {
      const place = this.#table[slot] as number;
      if (place === NONE) return slot;
      const [knownHigh, knownLow] = this.#at(place);
      if (knownHigh === high && knownLow === low) return slot;
      slot = (slot + 1) & mask;
    }
  }

  /** Keys after it that were moved on by it move back. */
  #clear(slot: number): void {
    const mask = this.#table.length - 1;
    let hole = slot;
    for (let at = (hole + 1) & mask; this.#table[at] !== NONE; at = (at + 1) & mask) {
      const [high, low] = this.#at(this.#table[at] as number);
      const wanted = (high ^ low) & mask;
      if (((at - wanted) & mask) < ((at - hole) & mask)) continue;
      this.#table[hole] = this.#table[at] as number;
      hole = at;
    }
    this.#table[hole] = NONE;
  }

  #grow(): void {
    const keys = new Int32Array(2 * this.#keys.length);
    keys.set(this.#keys);
    this.#keys = keys;
    this.#table = new Int32Array(2 * this.#table.length).fill(NONE);
    for (let place = 0; place < this.#size; place++) {
      this.#table[this.#slotOf(...this.#at(place))] = place;
    }
  }
}
