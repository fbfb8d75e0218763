// Adds blocks to a segment of its own: records first, then the slots that tell of them. Whatever fails ends the segment where
// it was whole, and the next block begins another one.

import { join } from 'node:path';
import type { BlockLabel } from './block-tier.ts';
import { type IndexSlot, packSlots, SLOT_BYTES, writeHeader } from './index-slots.ts';
import type { SealedRecord, Sealing } from './sealing.ts';
import { blocksPath, indexPath, removeSegment, segmentName } from './segments.ts';
import type { OpenFile, StoreFiles } from './store-files.ts';

/** A block that is ready to be written. */
export interface NewRecord {
  readonly key: Uint8Array;
  readonly tenant: Uint8Array;
  readonly createdS: number;
  readonly label: BlockLabel | undefined;
  readonly record: SealedRecord;
}

export interface AddedBlocks {
  readonly segment: string;
  /** In the order in which they were given. */
  readonly slots: readonly IndexSlot[];
}

interface SegmentLimits {
  readonly segmentBytes: number;
  /** A segment takes blocks for so long. */
  readonly segmentMs: number;
}

interface SegmentWriterOptions {
  readonly folder: string;
  /** Its folder in the store. */
  readonly model: string;
  readonly sealing: Sealing;
  readonly limits: SegmentLimits;
  /** See StoreWriter. */
  readonly keepKey: () => void;
}

/** What a system gathers of one segment at most before it is on the disk, and for how long. */
const SYNC_EVERY_BYTES = 64 * 2 ** 20;
const SYNC_EVERY_MS = 30_000;

interface OpenSegment {
  readonly name: string;
  readonly beginMs: number;
  readonly blocks: OpenFile;
  readonly index: OpenFile;
  /** Of whole records, and of slots with the header. */
  blockBytes: number;
  slots: number;
  unsyncedBytes: number;
  syncedMs: number;
  /** Its names outlive a loss of power. */
  isNamed: boolean;
}

export class SegmentWriter {
  readonly #files: StoreFiles;
  readonly #folder: string;
  readonly #model: string;
  readonly #sealing: Sealing;
  readonly #limits: SegmentLimits;
  readonly #keepKey: () => void;
  #open: OpenSegment | undefined;
  /** Names go up, even where the clock goes back. */
  #lastBeginMs = 0;

  constructor(files: StoreFiles, { folder, model, sealing, limits, keepKey }: SegmentWriterOptions) {
    this.#files = files;
    this.#folder = folder;
    this.#model = model;
    this.#sealing = sealing;
    this.#limits = limits;
    this.#keepKey = keepKey;
  }

  get current(): string | undefined {
    return this.#open?.name;
  }

  /** Throws where the disk does not take them all: then none is told of. */
  add(records: readonly NewRecord[], nowMs: number): AddedBlocks {
    const bytes = records.reduce((sum, { record }) => sum + record.bytes, 0);
    const segment = this.#segmentFor(bytes, nowMs);
    try {
      const slots = this.#write(segment, records);
      segment.unsyncedBytes += bytes;
      if (segment.unsyncedBytes >= SYNC_EVERY_BYTES) this.#syncOrClose(segment, nowMs);
      return { segment: segment.name, slots };
    } catch (error) {
      this.#giveUp(segment);
      throw error;
    }
  }

  /** Called every few seconds: ends a segment that has been open for long, so that it can grow old, and syncs one in between. */
  tend(nowMs: number): void {
    const segment = this.#open;
    if (segment === undefined) return;
    if (this.#isOld(segment, nowMs)) this.end();
    else if (segment.unsyncedBytes > 0 && Math.abs(nowMs - segment.syncedMs) > SYNC_EVERY_MS) {
      this.#syncOrClose(segment, nowMs);
    }
  }

  /** What the segment has outlives a loss of power from here on. */
  end(): void {
    const segment = this.#open;
    if (segment === undefined) return;
    try {
      if (segment.unsyncedBytes > 0) this.#sync(segment);
    } finally {
      this.#close(segment);
    }
  }

  #segmentFor(bytes: number, nowMs: number): OpenSegment {
    const open = this.#open;
    if (open !== undefined) {
      // Others removed it for room: what is added would never be found.
      if (this.#files.state(open.blocks).links === 0) this.#close(open);
      else if (open.blockBytes + bytes > this.#limits.segmentBytes || this.#isOld(open, nowMs)) this.end();
    }
    this.#open ??= this.#begin(nowMs);
    return this.#open;
  }

  #isOld({ beginMs }: OpenSegment, nowMs: number): boolean {
    return Math.abs(nowMs - beginMs) > this.#limits.segmentMs;
  }

  #begin(nowMs: number): OpenSegment {
    this.#keepKey();
    const beginMs = Math.max(nowMs, this.#lastBeginMs + 1);
    this.#lastBeginMs = beginMs;
    const name = segmentName(beginMs);
    this.#files.makeFolder(join(this.#folder, this.#model));
    const blocks = this.#create(blocksPath(this.#folder, this.#model, name));
    try {
      const index = this.#create(indexPath(this.#folder, this.#model, name));
      const synced = { unsyncedBytes: 0, syncedMs: nowMs, isNamed: false };
      const segment = { name, beginMs, blocks, index, blockBytes: 0, slots: 1, ...synced };
      try {
        this.#files.write(index, [writeHeader(this.#sealing.mark)], 0);
        return segment;
      } catch (error) {
        this.#files.close(index);
        throw error;
      }
    } catch (error) {
      this.#files.close(blocks);
      removeSegment(this.#files, this.#folder, this.#model, name);
      throw error;
    }
  }

  #create(path: string): OpenFile {
    const file = this.#files.create(path);
    if (file === undefined) throw new Error(`${path} is there already`);
    return file;
  }

  #write(segment: OpenSegment, records: readonly NewRecord[]): IndexSlot[] {
    let offset = segment.blockBytes;
    const slots = records.map(({ key, tenant, createdS, label, record }) => {
      const slot = { key, tenant, createdS, label, offset, bytes: record.bytes };
      offset += record.bytes;
      return slot;
    });
    this.#files.write(
      segment.blocks,
      records.flatMap(({ record }) => record.parts),
      segment.blockBytes,
    );
    const enciphered = this.#sealing.cipherSlots(segment.name, segment.slots, packSlots(slots));
    this.#files.write(segment.index, [enciphered], segment.slots * SLOT_BYTES);
    segment.blockBytes = offset;
    segment.slots += slots.length;
    return slots;
  }

  /** Blocks first: a slot that outlives a loss of power then has its block. */
  #sync(segment: OpenSegment): void {
    this.#files.sync(segment.blocks);
    this.#files.sync(segment.index);
    if (!segment.isNamed) {
      this.#files.syncFolder(join(this.#folder, this.#model));
      this.#files.syncFolder(this.#folder);
    }
    segment.isNamed = true;
    segment.unsyncedBytes = 0;
  }

  /** What cannot be synced may be lost, and would not be missed by a later sync: the segment takes no more. */
  #syncOrClose(segment: OpenSegment, nowMs: number): void {
    try {
      this.#sync(segment);
      segment.syncedMs = nowMs;
    } catch {
      this.#close(segment);
    }
  }

  /** Gives back what a failed write has taken. Slots are never written twice, for their cipher allows it once. */
  #giveUp(segment: OpenSegment): void {
    try {
      if (segment.slots === 1) removeSegment(this.#files, this.#folder, this.#model, segment.name);
      else {
        this.#files.truncate(segment.index, segment.slots * SLOT_BYTES);
        this.#files.truncate(segment.blocks, segment.blockBytes);
      }
    } catch {
      // The disk that failed may fail again. What is left is read as what it is.
    } finally {
      this.#close(segment);
    }
  }

  #close(segment: OpenSegment): void {
    this.#open = undefined;
    try {
      this.#files.close(segment.blocks);
    } finally {
      this.#files.close(segment.index);
    }
  }
}
