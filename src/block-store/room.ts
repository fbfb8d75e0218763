// Keeps a store within its limits. Whole segments go, the oldest of all models first: what is read is written anew before its
// segment's turn comes, so that the oldest are those that nobody has read for long.

import { allSegments, nameAt, removeSegment, type Segment } from './segments.ts';
import type { StoreFiles } from './store-files.ts';

export interface StoreLimits {
  /** Of all models together. */
  readonly sizeBytes: number;
  /** No block is older; absent: no limit. */
  readonly ageMs?: number | undefined;
  readonly segmentBytes: number;
  readonly segmentMs: number;
}

const MIB = 2 ** 20;
const HOUR_MS = 3_600_000;
/** A store has about so many when it is full. */
const SEGMENTS = 128;
/** Part of the age for which a segment takes blocks at most. */
const AGE_PARTS = 8;

export function limitsOf(sizeBytes: number, ageMs: number | undefined, segmentBytes?: number): StoreLimits {
  return {
    sizeBytes,
    ageMs,
    segmentBytes: segmentBytes ?? Math.min(Math.max(Math.floor(sizeBytes / SEGMENTS), MIB), 1024 * MIB),
    segmentMs: Math.min(HOUR_MS, (ageMs ?? Number.POSITIVE_INFINITY) / AGE_PARTS),
  };
}

/** Left to others on the disk; of a small one, a part. */
const LEFT_BYTES = 256 * MIB;
const LEFT_PART = 1 / 20;

/** The disk is full, whoever filled it. */
export class DiskFull extends Error {
  override readonly name = 'DiskFull';
}

export class Room {
  readonly #files: StoreFiles;
  readonly #folder: string;
  readonly #limits: StoreLimits;
  /** Blocks of segments whose names sort before it are written anew where they are read. */
  oldBefore = '';

  constructor(files: StoreFiles, folder: string, limits: StoreLimits) {
    this.#files = files;
    this.#folder = folder;
    this.#limits = limits;
  }

  /** Throws where so much may not be written. `kept`: the segment that is being written. Names of the segments that went. */
  make(bytes: number, kept: string | undefined): string[] {
    const { sizeBytes } = this.#limits;
    const segments = allSegments(this.#files, this.#folder);
    const keptBytes = segments.find(({ name }) => name === kept)?.bytes ?? 0;
    if (keptBytes + bytes > sizeBytes) {
      throw new DiskFull(`the store may take no more than ${sizeBytes} bytes`);
    }
    const removed: string[] = [];
    let used = segments.reduce((sum, segment) => sum + segment.bytes, 0);
    for (const segment of segments) {
      if (used + bytes <= sizeBytes) break;
      if (segment.name === kept) continue;
      this.#remove(segment);
      removed.push(segment.name);
      used -= segment.bytes;
    }
    if (used + bytes > sizeBytes)
      throw new DiskFull(`more than the ${sizeBytes} bytes that the store may take`);
    this.oldBefore = oldBefore(segments, sizeBytes / 2);
    const disk = this.#files.room(this.#folder);
    if (disk !== undefined && disk.freeBytes < bytes + Math.min(LEFT_BYTES, disk.bytes * LEFT_PART)) {
      throw new DiskFull(`no more than ${Math.floor(disk.freeBytes / MIB)} MiB are free on its disk`);
    }
    return removed;
  }

  /** Removes segments all of whose blocks are too old, of whichever model. */
  expire(nowMs: number): void {
    const { ageMs, segmentMs } = this.#limits;
    if (ageMs === undefined) return;
    const end = nameAt(nowMs - ageMs - segmentMs);
    for (const segment of allSegments(this.#files, this.#folder))
      if (segment.name < end) this.#remove(segment);
  }

  #remove({ model, name }: Segment): void {
    removeSegment(this.#files, this.#folder, model, name);
  }
}

/** The name of the segment where the newest ones together have so many bytes. */
function oldBefore(segments: readonly Segment[], bytes: number): string {
  let sum = 0;
  for (const { name, bytes: more } of segments.toReversed()) {
    sum += more;
    if (sum > bytes) return name;
  }
  return '';
}
