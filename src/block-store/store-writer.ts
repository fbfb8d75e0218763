// What one process does to a store on disk, in the thread that may wait for it: writes blocks of its model, follows what other
// processes write, keeps the limits.

import type { BlockLabel } from './block-tier.ts';
import { type IndexChanges, IndexReader } from './index-reader.ts';
import { TENANT_BYTES } from './index-slots.ts';
import type { BlockPlace } from './record-reader.ts';
import { removeTenant } from './removal.ts';
import { Room, type StoreLimits } from './room.ts';
import type { Sealing } from './sealing.ts';
import { type AddedBlocks, type NewRecord, SegmentWriter } from './segment-writer.ts';
import { blocksPath } from './segments.ts';
import type { StoreFiles } from './store-files.ts';

/** A block to write; or one to write anew, as it lies on disk, before its segment is removed. */
export type BlockToWrite =
  | {
      readonly kind: 'new';
      readonly key: Uint8Array;
      readonly tenant: string;
      readonly bytes: Uint8Array;
      readonly label: BlockLabel | undefined;
    }
  | {
      readonly kind: 'again';
      readonly key: Uint8Array;
      readonly place: BlockPlace;
      readonly createdS: number;
      readonly label: BlockLabel | undefined;
    };

export interface WrittenBlocks {
  readonly added: AddedBlocks;
  /** Segments that were removed to make room. */
  readonly gone: readonly string[];
}

interface StoreWriterOptions {
  readonly folder: string;
  /** Its folder in the store. */
  readonly model: string;
  readonly sealing: Sealing;
  readonly limits: StoreLimits;
  /** Called before a segment is begun; throws where nobody could read it. */
  readonly keepKey: () => void;
}

export class StoreWriter {
  readonly #files: StoreFiles;
  readonly #options: StoreWriterOptions;
  readonly #index: IndexReader;
  readonly #segments: SegmentWriter;
  readonly #room: Room;

  constructor(files: StoreFiles, options: StoreWriterOptions) {
    const { folder, model, sealing, limits, keepKey } = options;
    this.#files = files;
    this.#options = options;
    this.#index = new IndexReader(files, folder, model, sealing);
    this.#segments = new SegmentWriter(files, { folder, model, sealing, limits, keepKey });
    this.#room = new Room(files, folder, limits);
  }

  /** Blocks in segments whose names sort before it had better be written anew where they are read. */
  get oldBefore(): string {
    return this.#room.oldBefore;
  }

  /** Everything at first; later what other processes did, and what has grown too old. */
  changes(nowMs: number): IndexChanges {
    this.#segments.tend(nowMs);
    this.#room.expire(nowMs);
    return this.#index.changes();
  }

  /** All of them or, where it throws, none. */
  write(blocks: readonly BlockToWrite[], nowMs: number): WrittenBlocks | undefined {
    const records = blocks.flatMap((block) => this.#record(block, nowMs) ?? []);
    if (records.length === 0) return undefined;
    const bytes = records.reduce((sum, { record }) => sum + record.bytes, 0);
    const gone = this.#room.make(bytes, this.#segments.current);
    const added = this.#segments.add(records, nowMs);
    this.#index.skip(added.segment);
    return { added, gone };
  }

  remove(tenant: string): number {
    const { folder, sealing } = this.#options;
    return removeTenant(this.#files, folder, sealing, tenant);
  }

  end(): void {
    this.#segments.end();
  }

  /** Undefined where a block to be written anew is gone. */
  #record(block: BlockToWrite, nowMs: number): NewRecord | undefined {
    const { sealing } = this.#options;
    const { key, label } = block;
    if (block.kind === 'new') {
      const tenant = sealing.tenantMark(block.tenant);
      const record = sealing.seal(key, tenant, block.bytes);
      return { key, tenant, createdS: Math.floor(nowMs / 1000), label, record };
    }
    const bytes = this.#read(block.place);
    if (bytes === undefined) return undefined;
    const tenant = bytes.subarray(0, TENANT_BYTES);
    return {
      key,
      tenant,
      createdS: block.createdS,
      label,
      record: { parts: [bytes], bytes: bytes.length },
    };
  }

  #read({ segment, offset, bytes }: BlockPlace): Uint8Array | undefined {
    const { folder, model } = this.#options;
    const file = this.#files.open(blocksPath(folder, model, segment), 'read');
    if (file === undefined) return undefined;
    try {
      const record = new Uint8Array(bytes);
      return this.#files.read(file, record, offset) === bytes ? record : undefined;
    } finally {
      this.#files.close(file);
    }
  }
}
