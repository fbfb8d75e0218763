// Sets of part numbers, for keys that more than two parts hold: one bit for each part, all sets of one width. A set's row is a
// count, then the bits. Rows lie in chunks, so that growing never moves them; only widening copies.

const CHUNK_SETS = 4096;
const FIRST_WORDS = 2;

export class HolderSets {
  #chunks: Int32Array[] = [];
  #words = FIRST_WORDS;
  readonly #free: number[] = [];
  #made = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get words(): number {
    return this.#words;
  }

  get setBytes(): number {
    return 4 * (1 + this.#words);
  }

  /** Makes room for part numbers below `count` in all sets. */
  widen(count: number): void {
    let words = this.#words;
    while (words * 32 < count) words *= 2;
    if (words === this.#words) return;
    const [narrow, wide] = [1 + this.#words, 1 + words];
    this.#chunks = this.#chunks.map((chunk) => {
      const copy = new Int32Array(CHUNK_SETS * wide);
      for (let row = 0; row < CHUNK_SETS; row++) {
        for (let i = 0; i < narrow; i++) copy[row * wide + i] = chunk[row * narrow + i] as number;
      }
      return copy;
    });
    this.#words = words;
  }

  make(): number {
    this.#size += 1;
    const known = this.#free.pop();
    if (known !== undefined) return known;
    if (this.#made % CHUNK_SETS === 0) this.#chunks.push(new Int32Array(CHUNK_SETS * (1 + this.#words)));
    this.#made += 1;
    return this.#made - 1;
  }

  drop(set: number): void {
    const start = this.rowOf(set);
    this.chunkOf(set).fill(0, start, start + 1 + this.#words);
    this.#free.push(set);
    this.#size -= 1;
  }

  /** The bits of a set begin one after `rowOf`. */
  chunkOf(set: number): Int32Array {
    return this.#chunks[Math.floor(set / CHUNK_SETS)] as Int32Array;
  }

  rowOf(set: number): number {
    return (set % CHUNK_SETS) * (1 + this.#words);
  }

  count(set: number): number {
    return this.chunkOf(set)[this.rowOf(set)] as number;
  }

  add(set: number, part: number): void {
    const chunk = this.chunkOf(set);
    const row = this.rowOf(set);
    const word = row + 1 + (part >>> 5);
    const bit = 1 << (part & 31);
    if (((chunk[word] as number) & bit) !== 0) return;
    chunk[word] = (chunk[word] as number) | bit;
    chunk[row] = (chunk[row] as number) + 1;
  }

  remove(set: number, part: number): void {
    const chunk = this.chunkOf(set);
    const row = this.rowOf(set);
    const word = row + 1 + (part >>> 5);
    const bit = 1 << (part & 31);
    if (((chunk[word] as number) & bit) === 0) return;
    chunk[word] = (chunk[word] as number) & ~bit;
    chunk[row] = (chunk[row] as number) - 1;
  }

  keepOnly(set: number, kept: Int32Array): void {
    const chunk = this.chunkOf(set);
    const row = this.rowOf(set);
    let count = 0;
    for (let i = 0; i < this.#words; i++) {
      const bits = (chunk[row + 1 + i] as number) & (kept[i] as number);
      chunk[row + 1 + i] = bits;
      count += bitCount(bits);
    }
    chunk[row] = count;
  }

  /** The lowest part; the set must not be empty. */
  first(set: number): number {
    const chunk = this.chunkOf(set);
    const row = this.rowOf(set);
    let word = 0;
    while (chunk[row + 1 + word] === 0) word += 1;
    return 32 * word + lowestBit(chunk[row + 1 + word] as number);
  }
}

export function lowestBit(bits: number): number {
  return 31 - Math.clz32(bits & -bits);
}

function bitCount(bits: number): number {
  let sum = bits - ((bits >>> 1) & 0x55555555);
  sum = (sum & 0x33333333) + ((sum >>> 2) & 0x33333333);
  return Math.imul((sum + (sum >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}
