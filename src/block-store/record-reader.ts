// Reads blocks from segments: records that lie near each other in one read, each opened by itself.

import type { Sealing, UnsealFailure } from './sealing.ts';
import { blocksPath } from './segments.ts';
import type { OpenFile, StoreFiles } from './store-files.ts';

/** Where a block lies. */
export interface BlockPlace {
  readonly segment: string;
  readonly offset: number;
  /** Of its record. */
  readonly bytes: number;
}

export interface WantedBlock extends BlockPlace {
  readonly key: Uint8Array;
}

/** `gone`: its segment was removed. `unread`: it cannot be read now, and may be later. */
export type ReadFailure = UnsealFailure | 'gone' | 'unread';

export type ReadBlock = Uint8Array | ReadFailure;

/** Read at once, so that it is still in the processor's cache when it is opened; a larger record by itself. */
const RUN_BYTES = 2 ** 20;
/** What lies between two records is read as well where it is no more. */
const GAP_BYTES = 128 * 2 ** 10;

interface Item {
  readonly block: WantedBlock;
  /** Its place in the answer. */
  readonly at: number;
}

export class RecordReader {
  readonly #files: StoreFiles;
  readonly #folder: string;
  readonly #model: string;
  readonly #sealing: Sealing;
  readonly #allocate: ((bytes: number) => Uint8Array<ArrayBuffer>) | undefined;
  #buffer = new Uint8Array(0);

  /** `allocate`: memory for a block's bytes. */
  constructor(
    files: StoreFiles,
    folder: string,
    model: string,
    sealing: Sealing,
    allocate?: (bytes: number) => Uint8Array<ArrayBuffer>,
  ) {
    this.#files = files;
    this.#folder = folder;
    this.#model = model;
    this.#sealing = sealing;
    this.#allocate = allocate;
  }

  /** In the order of what is wanted. */
  read(wanted: readonly WantedBlock[]): ReadBlock[] {
    const results: ReadBlock[] = wanted.map(() => 'gone');
    for (const [segment, items] of grouped(wanted)) {
      try {
        this.#readSegment(segment, items, results);
      } catch {
        // No descriptors are left, or no right to it.
        for (const { at } of items) results[at] = 'unread';
      }
    }
    return results;
  }

  #readSegment(segment: string, items: readonly Item[], results: ReadBlock[]): void {
    const file = this.#files.open(blocksPath(this.#folder, this.#model, segment), 'read');
    if (file === undefined) return;
    try {
      for (const run of runsOf(items)) this.#readRun(file, run, results);
    } finally {
      this.#files.close(file);
    }
  }

  #readRun(file: OpenFile, run: readonly Item[], results: ReadBlock[]): void {
    const begin = run[0]?.block.offset ?? 0;
    const end = Math.max(...run.map(({ block }) => block.offset + block.bytes));
    if (this.#buffer.length < end - begin) this.#buffer = new Uint8Array(end - begin);
    const count = this.#bytesRead(file, this.#buffer.subarray(0, end - begin), begin);
    // One bad sector spoils the whole read, and one block.
    if (count === undefined && run.length > 1) {
      for (const item of run) this.#readRun(file, [item], results);
      return;
    }
    for (const { block, at } of run) {
      const [from, to] = [block.offset - begin, block.offset - begin + block.bytes];
      const isThere = to <= (count ?? 0);
      const record = this.#buffer.subarray(from, to);
      results[at] = isThere ? this.#sealing.unseal(block.key, record, this.#allocate) : 'damaged';
    }
  }

  /** Undefined where the disk cannot give its bytes back. */
  #bytesRead(file: OpenFile, into: Uint8Array, position: number): number | undefined {
    try {
      return this.#files.read(file, into, position);
    } catch {
      return undefined;
    }
  }
}

function grouped(wanted: readonly WantedBlock[]): Map<string, Item[]> {
  const groups = new Map<string, Item[]>();
  for (const [at, block] of wanted.entries()) {
    const group = groups.get(block.segment);
    if (group === undefined) groups.set(block.segment, [{ block, at }]);
    else group.push({ block, at });
  }
  return groups;
}

/** Items that are read together, by where they lie. */
function runsOf(items: readonly Item[]): Item[][] {
  const sorted = [...items].sort((one, other) => one.block.offset - other.block.offset);
  const runs: Item[][] = [];
  let [begin, end] = [0, 0];
  for (const item of sorted) {
    const { offset, bytes } = item.block;
    const last = runs.at(-1);
    if (last !== undefined && offset <= end + GAP_BYTES && offset + bytes - begin <= RUN_BYTES)
      last.push(item);
    else {
      runs.push([item]);
      begin = offset;
      end = offset;
    }
    end = Math.max(end, offset + bytes);
  }
  return runs;
}
