// One sequence's blocks on their way up: asked for in large reads, some ahead of what is written, in the order of the chain. Knows
// no backend: it says what is there to be written next.

import type { BlockTier } from '../../block-store/block-tier.ts';
import type { Loading, Sequence } from '../scheduler/sequence.ts';
import type { StoredBlocks } from './stored-blocks.ts';

/** Bytes that are read in one go, and those that may be there or on their way before they are written. */
const READ_BYTES = 8 << 20;
const AHEAD_BYTES = 96 << 20;
/** Where nothing has come for so long after all could have been computed, the rest is: the disk does not answer, or others have it. */
const LATE_MS = 1000;

export interface LoadParts {
  readonly sequence: Sequence;
  /** Of the blocks that come up, and after them of the recurrent states, where the model has any. */
  readonly keys: readonly Buffer[];
  /** Place of the first of them in the sequence. */
  readonly first: number;
  readonly sizeOf: (index: number) => number;
  readonly beganMs: number;
}

export class Load {
  readonly sequence: Sequence;
  /** The sequence's, while it waits for this load and no other. */
  readonly #loading: Loading | undefined;
  readonly first: number;
  readonly #keys: readonly Buffer[];
  readonly #sizeOf: (index: number) => number;
  readonly #stored: StoredBlocks;
  readonly #wake: () => void;
  readonly #abort = new AbortController();
  /** Of the disk, by place in the chain; null: it could not be had. */
  readonly #arrived = new Map<number, Uint8Array | null>();
  /** Of the disk's: written. */
  #used: Uint8Array[] = [];
  /** Places that the disk was asked for, and that are not written. */
  readonly #reading = new Set<number>();
  /** The next to be written, and the next to be asked for. */
  #next = 0;
  #asked = 0;
  /** Of those that were asked for and not written. */
  #aheadBytes = 0;
  #leftBytes: number;
  readonly #deadlineMs: number;
  readonly #alarm: NodeJS.Timeout;

  constructor({ sequence, keys, first, sizeOf, beganMs }: LoadParts, stored: StoredBlocks, wake: () => void) {
    this.sequence = sequence;
    this.#loading = sequence.loading;
    this.first = first;
    this.#keys = keys;
    this.#sizeOf = sizeOf;
    this.#stored = stored;
    this.#wake = wake;
    this.#leftBytes = keys.reduce((sum, _, index) => sum + sizeOf(index), 0);
    const mostMs = (sequence.loading?.computeMs ?? 0) + LATE_MS;
    this.#deadlineMs = beganMs + mostMs;
    this.#alarm = setTimeout(wake, mostMs).unref();
  }

  /** Whether the sequence still waits for it. */
  get isWanted(): boolean {
    return this.#loading !== undefined && this.sequence.loading === this.#loading;
  }

  get isDone(): boolean {
    return this.#next === this.#keys.length;
  }

  /** Place of what is to be written next. */
  get next(): number {
    return this.#next;
  }

  get leftBytes(): number {
    return this.#leftBytes;
  }

  /** Whether it has anything to be written, or to be said. */
  isReady(nowMs: number): boolean {
    if (!this.isWanted || this.isDone || nowMs >= this.#deadlineMs) return true;
    if (this.#next >= this.#asked) return false;
    return this.#arrived.has(this.#next) || !this.#reading.has(this.#next);
  }

  /** Asks for as much as may be ahead. */
  fetch(): void {
    while (this.#asked < this.#keys.length && this.#aheadBytes < AHEAD_BYTES) {
      const from = this.#asked;
      let bytes = 0;
      while (this.#asked < this.#keys.length && bytes < READ_BYTES) {
        if (this.#stored.host?.has(this.#keys[this.#asked] as Buffer) === true) break;
        bytes += this.#sizeOf(this.#asked);
        this.#asked += 1;
      }
      this.#aheadBytes += bytes;
      if (this.#asked > from) this.#read(from, this.#asked);
      else {
        // It is in memory, and is looked for again when its turn has come.
        this.#aheadBytes += this.#sizeOf(from);
        this.#asked += 1;
      }
    }
  }

  /** What is to be written next: null where it cannot be had in time, undefined where it is still on its way. */
  take(nowMs: number): Uint8Array | null | undefined {
    const isLate = nowMs >= this.#deadlineMs;
    if (this.#next >= this.#asked) return isLate ? null : undefined;
    const bytes = this.#arrived.get(this.#next);
    if (bytes !== undefined) return bytes;
    const host = this.#stored.host?.get(this.#keys[this.#next] as Buffer);
    return host ?? (this.#reading.has(this.#next) && !isLate ? undefined : null);
  }

  /** What was taken is written. */
  written(): void {
    const read = this.#arrived.get(this.#next);
    if (read) this.#used.push(read);
    this.#arrived.delete(this.#next);
    this.#reading.delete(this.#next);
    const bytes = this.#sizeOf(this.#next);
    this.#aheadBytes -= bytes;
    this.#leftBytes -= bytes;
    this.#next += 1;
  }

  /** Memory of what is written is the disk's again. */
  giveBack(): void {
    if (this.#used.length > 0) this.#stored.disk?.giveBack(this.#used);
    this.#used = [];
  }

  /** Nobody waits for it any more. */
  end(): void {
    clearTimeout(this.#alarm);
    this.#abort.abort();
    for (const bytes of this.#arrived.values()) if (bytes !== null) this.#used.push(bytes);
    this.#arrived.clear();
    this.giveBack();
  }

  /** It was used just now: from its end on, so that no parent goes before its children. */
  touch(): void {
    for (let index = this.#keys.length - 1; index >= 0; index--)
      this.#stored.host?.touch(this.#keys[index] as Buffer);
  }

  #read(from: number, to: number): void {
    const { disk } = this.#stored;
    for (let index = from; index < to; index++) this.#reading.add(index);
    const arrive = (blocks: readonly (Uint8Array | undefined)[]) => {
      for (let index = from; index < to; index++) this.#arrived.set(index, blocks[index - from] ?? null);
      this.#wake();
    };
    if (disk === undefined) arrive([]);
    else this.#readFrom(disk, this.#keys.slice(from, to)).then(arrive, () => arrive([]));
  }

  async #readFrom(disk: BlockTier, keys: readonly Buffer[]): Promise<readonly (Uint8Array | undefined)[]> {
    return disk.read(keys, this.#abort.signal);
  }
}
