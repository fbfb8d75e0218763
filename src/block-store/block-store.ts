// The tier of KV blocks on disk, as an engine process sees it: the index in memory, a thread that writes and threads that read.
// Several processes may use one folder; each finds what all have written for its model.

import { Buffer } from 'node:buffer';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { BlockIndex, type EntryId } from './block-index.ts';
import {
  BLOCK_KEY_BYTES,
  type BlockKey,
  type BlockLabel,
  type BlockTier,
  type BlockTierStats,
  type FoundBlocks,
  type LabelListener,
} from './block-tier.ts';
import { unpackSlots } from './index-slots.ts';
import { KEY_FILE } from './key-file.ts';
import { ReadQueue } from './read-queue.ts';
import type { ReadBlock, WantedBlock } from './record-reader.ts';
import { limitsOf } from './room.ts';
import { type ModelIdentity, modelFolder } from './segments.ts';
import { type QueuedBlock, WriteQueue } from './write-queue.ts';
import type { PackedSegment } from './write-thread.ts';

export interface BlockStoreOptions {
  /** May hold blocks of many models; is made where it is absent. */
  readonly folder: string;
  readonly model: ModelIdentity;
  /** Of all models together. */
  readonly sizeBytes: number;
  /** No block is found that was computed longer ago; absent: no limit. */
  readonly ageMs?: number | undefined;
  /** File of the store's key; in the folder where absent. */
  readonly keyFile?: string | undefined;
  /** What may wait to be written. */
  readonly queueBytes?: number;
  /** Started when they are needed. */
  readonly readThreads?: number;
  /** How often it looks for what other processes have written. */
  readonly followMs?: number;
  readonly segmentBytes?: number;
  /** Tried again so long after a write that failed. */
  readonly pauseMs?: number;
  /** What operators should know: one line, once. */
  readonly warn: (message: string) => void;
}

const QUEUE_BYTES = 256 * 2 ** 20;
const FOLLOW_MS = 5000;
const PAUSE_MS = 30_000;

export class BlockStore implements BlockTier {
  readonly #index = new BlockIndex();
  readonly #ageS: number;
  readonly #warn: (message: string) => void;
  #writes!: WriteQueue;
  #reads!: ReadQueue;
  #holder: string | undefined;
  /** Keys that wait to be written. */
  readonly #waiting = new Set<string>();
  #oldBefore = '';
  readonly #counts = { hits: 0, misses: 0, damaged: 0, written: 0, dropped: 0, evicted: 0 };
  #bytesRead = 0;
  #bytesWritten = 0;
  #writeMs = 0;

  private constructor({ ageMs, warn }: BlockStoreOptions) {
    this.#ageS = ageMs === undefined ? Number.POSITIVE_INFINITY : ageMs / 1000;
    this.#warn = warn;
  }

  /** Rejects where the folder cannot be used: then there is no such tier. */
  static async open(options: BlockStoreOptions): Promise<BlockStore> {
    const store = new BlockStore(options);
    const { folder, sizeBytes, ageMs, keyFile = join(folder, KEY_FILE) } = options;
    const { queue, opened } = await WriteQueue.open(
      {
        ...{
          folder,
          model: modelFolder(options.model),
          keyFile,
          limits: limitsOf(sizeBytes, ageMs, options.segmentBytes),
        },
        followMs: options.followMs ?? FOLLOW_MS,
        queueBytes: options.queueBytes ?? QUEUE_BYTES,
        pauseMs: options.pauseMs ?? PAUSE_MS,
      },
      {
        changes: ({ found, gone, damaged }) => {
          for (const segment of found) store.#add(segment);
          store.#forget(gone);
          store.#counts.damaged += damaged;
        },
        written: (written, blocks) => store.#hearWritten(written, blocks),
        dropped: (blocks) => store.#hearDropped(blocks),
        warn: (message) => store.#warn(`block store at ${folder}: ${message}`),
      },
    ).catch((error: Error) => {
      throw new Error(`the block store at ${folder} cannot be opened: ${error.message}`);
    });
    store.#writes = queue;
    const { storeKey, model, holder } = opened;
    store.#holder = holder;
    store.#reads = new ReadQueue({ folder, model, storeKey }, options.readThreads ?? readThreadsHere());
    return store;
  }

  get holder(): string | undefined {
    return this.#holder;
  }

  followLabels(listener: LabelListener | undefined): void {
    this.#index.followLabels(listener);
  }

  find(keys: readonly BlockKey[]): FoundBlocks {
    let [blocks, bytes] = [0, 0];
    for (const key of keys) {
      const id = this.#find(key);
      if (id === undefined) break;
      blocks++;
      bytes += this.#index.bytesOf(id);
    }
    return { blocks, bytes };
  }

  async read(keys: readonly BlockKey[], signal?: AbortSignal): Promise<(Uint8Array | undefined)[]> {
    const wanted = keys.map((key) => this.#wanted(key));
    const known = wanted.filter((block) => block !== undefined);
    const blocks = await this.#reads.read(known, signal);
    let next = 0;
    return wanted.map((block) => {
      const bytes = block === undefined ? undefined : this.#hearRead(block, blocks[next++] ?? 'unread');
      this.#counts[bytes === undefined ? 'misses' : 'hits']++;
      return bytes;
    });
  }

  giveBack(blocks: readonly Uint8Array[]): void {
    this.#reads.giveBack(blocks);
  }

  write(key: BlockKey, tenant: string, bytes: Uint8Array, label?: BlockLabel): boolean {
    if (key.length !== BLOCK_KEY_BYTES) throw new RangeError(`a key has ${BLOCK_KEY_BYTES} bytes`);
    if (this.#waiting.has(nameOf(key))) return true;
    const id = this.#find(key);
    if (id !== undefined) {
      this.#keep(id, key);
      return true;
    }
    if (!this.#writes.takes(bytes.length)) {
      this.#counts.dropped++;
      return false;
    }
    this.#waiting.add(nameOf(key));
    const [given, transfer] = handedOver(bytes);
    this.#writes.add({ kind: 'new', key: new Uint8Array(key), tenant, bytes: given, label }, transfer);
    return true;
  }

  remove(tenant: string): Promise<number> {
    return this.#writes.remove(tenant);
  }

  flush(): Promise<void> {
    return this.#writes.flush();
  }

  stats(): BlockTierStats {
    const { blocks, bytes } = this.#index;
    return {
      ...{ blocks, bytes, ...this.#counts },
      bytesRead: this.#bytesRead,
      bytesWritten: this.#bytesWritten,
      readMs: this.#reads.readMs,
      writeMs: this.#writeMs,
      queuedBytes: this.#writes.queuedBytes,
    };
  }

  async close(signal?: AbortSignal): Promise<void> {
    await this.#reads.close();
    await this.#writes.close(signal);
  }

  #find(key: BlockKey): EntryId | undefined {
    const id = this.#index.find(key);
    if (id === undefined) return undefined;
    return Date.now() / 1000 - this.#index.createdS(id) <= this.#ageS ? id : undefined;
  }

  #wanted(key: BlockKey): WantedBlock | undefined {
    const id = this.#find(key);
    return id === undefined ? undefined : { key: new Uint8Array(key), ...this.#index.place(id) };
  }

  #hearRead(wanted: WantedBlock, block: ReadBlock): Uint8Array | undefined {
    const id = this.#index.find(wanted.key);
    if (typeof block !== 'string') {
      this.#bytesRead += block.length;
      if (id !== undefined) this.#keep(id, wanted.key);
      return block;
    }
    if (block === 'damaged') this.#counts.damaged++;
    if (block === 'gone') this.#forget([wanted.segment]);
    // It may have been written anew meanwhile.
    else if (block !== 'unread' && id !== undefined && isSame(this.#index.place(id), wanted)) {
      this.#index.remove(id);
    }
    return undefined;
  }

  /** What is wanted is written anew before the turn of its segment comes. */
  #keep(id: EntryId, key: BlockKey): void {
    const place = this.#index.place(id);
    if (place.segment >= this.#oldBefore || this.#waiting.has(nameOf(key))) return;
    if (!this.#writes.takes(place.bytes)) return;
    this.#waiting.add(nameOf(key));
    const createdS = this.#index.createdS(id);
    const label = this.#index.labelOf(id);
    this.#writes.add({ kind: 'again', key: new Uint8Array(key), place, createdS, label }, []);
  }

  #add({ segment, slots }: PackedSegment): void {
    for (const slot of unpackSlots(slots)) this.#index.add(segment, slot);
  }

  #forget(segments: readonly string[]): void {
    for (const segment of segments) this.#counts.evicted += this.#index.removeSegment(segment);
  }

  #hearWritten(
    written: { added: PackedSegment | undefined; gone: readonly string[]; oldBefore: string; ms: number },
    blocks: readonly QueuedBlock[],
  ): void {
    if (written.added !== undefined) this.#add(written.added);
    this.#forget(written.gone);
    this.#oldBefore = written.oldBefore;
    this.#writeMs += written.ms;
    for (const { kind, key, bytes } of blocks) {
      this.#waiting.delete(nameOf(key));
      this.#bytesWritten += bytes;
      if (kind === 'new') this.#counts.written++;
    }
  }

  #hearDropped(blocks: readonly QueuedBlock[]): void {
    for (const { kind, key } of blocks) {
      this.#waiting.delete(nameOf(key));
      if (kind === 'new') this.#counts.dropped++;
    }
  }
}

/** Opening seals takes a thread a second for a GB or so. */
function readThreadsHere(): number {
  return Math.min(8, Math.max(1, Math.floor(availableParallelism() / 2)));
}

function nameOf(key: BlockKey): string {
  return Buffer.from(key.buffer, key.byteOffset, key.length).toString('latin1');
}

function isSame(one: Omit<WantedBlock, 'key'>, other: WantedBlock): boolean {
  return one.segment === other.segment && one.offset === other.offset;
}

/** The bytes as another thread can have them, and what is handed over to it for that. */
function handedOver(bytes: Uint8Array): readonly [Uint8Array, readonly ArrayBuffer[]] {
  const { buffer } = bytes;
  if (buffer instanceof SharedArrayBuffer) return [bytes, []];
  const own = bytes.length === buffer.byteLength ? bytes : new Uint8Array(bytes);
  return [own, [own.buffer as ArrayBuffer]];
}
