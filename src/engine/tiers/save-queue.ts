// Blocks on their way down. What is evicted is copied out before the next step writes in its place. Where there is a disk, blocks
// that nobody computes any more are written to it before they have to go, a few between any two steps, so that little is left to do
// when they are evicted or the engine ends.

import type { KvContent } from '../../compute/backend.ts';
import { type BlockKeys, type KeyedBlock, stateKey } from './block-keys.ts';
import type { StoredBlocks } from './stored-blocks.ts';

/** Pause before a disk that takes no more is offered the next block. */
const RETRY_MS = 100;

interface SaveOptions {
  readonly content: KvContent;
  readonly keys: BlockKeys;
  readonly stored: StoredBlocks;
  readonly isCached: (block: number) => boolean;
  /** The slot of its checkpoint, where it has one. */
  readonly stateAfter: (block: number) => number | undefined;
  readonly wake: () => void;
}

interface Evicted extends KeyedBlock {
  readonly read: () => Promise<Uint8Array<ArrayBuffer>>;
}

export class SaveQueue {
  readonly #content: KvContent;
  readonly #keys: BlockKeys;
  readonly #stored: StoredBlocks;
  readonly #options: SaveOptions;
  /** Cached blocks that may not be on the disk, in the order in which they came. */
  readonly #queue = new Set<number>();
  /** Cached blocks that are on the disk or on their way there; with their checkpoint, if it had one then. */
  readonly #kept = new Set<number>();
  readonly #keptStates = new Set<number>();
  #evicted: Evicted[] = [];
  /** Reads of content under way. */
  readonly #reading = new Set<Promise<void>>();
  #retry: NodeJS.Timeout | undefined;

  constructor(options: SaveOptions) {
    this.#options = options;
    this.#content = options.content;
    this.#keys = options.keys;
    this.#stored = options.stored;
  }

  /** Blocks that wait. */
  get size(): number {
    return this.#queue.size;
  }

  /** Whether any can be written down now. */
  get hasWork(): boolean {
    return this.#evicted.length > 0 || (this.#queue.size > 0 && this.#mayWrite);
  }

  get #mayWrite(): boolean {
    return this.#stored.disk !== undefined && this.#retry === undefined;
  }

  /** A cached block that nobody computes any more. */
  add(block: number): void {
    if (this.#stored.disk === undefined) return;
    const state = this.#options.stateAfter(block);
    const isKept = this.#kept.has(block) && (state === undefined || this.#keptStates.has(block));
    if (!isKept) this.#queue.add(block);
  }

  /** It came up from a tier. */
  noteKept(block: number): void {
    if (!this.#stored.hasOnDisk(this.#keys.of(block).key)) return;
    this.#kept.add(block);
  }

  /** The content is still there, until `saveEvicted` or the next write. */
  evicting(block: number): void {
    const { key, tenant, label } = this.#keys.of(block);
    const slot = this.#options.stateAfter(block);
    if (slot !== undefined) this.evictingState(slot, block);
    const isKept = this.#kept.has(block);
    this.forget(block);
    const read = async () =>
      (await this.#content.readBlocks(Int32Array.of(block)))[0] as Uint8Array<ArrayBuffer>;
    this.#evict({ key, tenant, label, read }, isKept);
  }

  /** It is no longer to be written down. */
  forget(block: number): void {
    this.#kept.delete(block);
    this.#keptStates.delete(block);
    this.#queue.delete(block);
  }

  evictingState(slot: number, block: number): void {
    const { key, tenant } = this.#keys.of(block);
    const isKept = this.#keptStates.delete(block);
    this.#evict({ key: stateKey(key), tenant, read: () => this.#content.readState(slot) }, isKept);
  }

  #evict(block: Evicted, isOnDisk: boolean): void {
    const { host } = this.#stored;
    if (this.#stored.isRemoved(block.tenant) || host?.touch(block.key) === true) return;
    if (host === undefined && (isOnDisk || this.#stored.disk === undefined)) return;
    this.#evicted.push(block);
  }

  saveEvicted(): void {
    if (this.#evicted.length === 0) return;
    const evicted = this.#evicted;
    this.#evicted = [];
    for (const { read, ...keyed } of evicted) {
      this.#track(read().then((bytes) => this.#stored.put({ ...keyed, bytes })));
    }
  }

  /** Writes blocks down while it may, and one at least. */
  save(mayGoOn: () => boolean): void {
    if (!this.#mayWrite) return;
    for (const block of this.#queue) {
      this.#queue.delete(block);
      if (this.#options.isCached(block)) this.#keep(block);
      if (!mayGoOn() || !this.#mayWrite) return;
    }
  }

  /** Those of memory, and of the machine's memory, as far as there is time. */
  async saveAll(blocks: Iterable<number>, signal: AbortSignal): Promise<void> {
    const { disk, host } = this.#stored;
    if (disk === undefined) return;
    const aborted = new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve(), { once: true });
      if (signal.aborted) resolve();
    });
    const flushed = () => Promise.race([disk.flush(), aborted]);
    for (const block of blocks) this.add(block);
    this.saveEvicted();
    while (this.#queue.size > 0 && !signal.aborted) {
      this.save(() => this.#reading.size < 16);
      await Promise.all(this.#reading);
      if (!this.#mayWrite) await flushed();
      this.#endPause();
    }
    for (const block of host?.all() ?? []) {
      while (!signal.aborted && !this.#stored.hasOnDisk(block.key) && !this.#stored.putOnDisk(block))
        await flushed();
      if (signal.aborted) return;
    }
  }

  #keep(block: number): void {
    const { key, tenant, label } = this.#keys.of(block);
    const slot = this.#options.stateAfter(block);
    const parts: Evicted[] = [];
    if (!this.#kept.has(block) && !this.#stored.hasOnDisk(key)) {
      const read = async () =>
        (await this.#content.readBlocks(Int32Array.of(block)))[0] as Uint8Array<ArrayBuffer>;
      parts.push({ key, tenant, label, read });
    }
    const own = stateKey(key);
    if (slot !== undefined && !this.#keptStates.has(block) && !this.#stored.hasOnDisk(own)) {
      parts.push({ key: own, tenant, read: () => this.#content.readState(slot) });
    }
    this.#kept.add(block);
    if (slot !== undefined) this.#keptStates.add(block);
    for (const part of parts) this.#track(this.#write(part, block));
  }

  async #write({ read, ...keyed }: Evicted, block: number): Promise<void> {
    if (this.#stored.putOnDisk({ ...keyed, bytes: await read() })) return;
    // It takes no more for now. What the block is may have changed meanwhile: then it is not among those that are kept.
    const isSame = this.#options.isCached(block) && this.#keys.of(block).key.equals(keyed.key);
    this.#kept.delete(block);
    this.#keptStates.delete(block);
    if (isSame) this.#queue.add(block);
    this.#pause();
  }

  #pause(): void {
    this.#retry ??= setTimeout(() => {
      this.#retry = undefined;
      this.#options.wake();
    }, RETRY_MS).unref();
  }

  #endPause(): void {
    clearTimeout(this.#retry);
    this.#retry = undefined;
  }

  /** Content that cannot be read is not kept. */
  #track(task: Promise<void>): void {
    const own = task.catch(() => {}).finally(() => this.#reading.delete(own));
    this.#reading.add(own);
  }
}
