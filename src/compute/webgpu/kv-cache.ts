// The KV cache in GPU memory: a buffer for each cache of the model. WebGPU cannot reserve addresses without memory, so
// buffers have room for some of the blocks and are replaced by others where that changes, one cache after the other:
// no more than one cache is allocated twice.

import type { ModelSpec } from '../../model/spec.ts';
import type { Batch, BlockMemory, KvType } from '../backend.ts';
import { BlockSlots, type SlotMove } from '../block-slots.ts';
import type { BufferPart } from './buffer-content.ts';
import { cacheBlockBytes } from './kernels/kv-layout.ts';
import { type GpuMemory, GpuMemoryError, ReplaceableBuffer } from './memory.ts';

/** A thousand tokens: enough for the self-test and short answers. */
const FIRST_BLOCKS = 32;
/** Bytes of old buffers that may be waiting for the GPU to be done with them. */
const LEAVING_BYTES = 64 << 20;

interface KvCacheOptions {
  readonly kvType: KvType;
  readonly blockCount: number;
  readonly bindingBytes: number;
}

interface Cache {
  readonly blockBytes: number;
  readonly buffer: ReplaceableBuffer;
  /** Blocks that its buffer has room for. */
  blocks: number;
}

export class KvCache implements BlockMemory {
  readonly #device: GPUDevice;
  readonly #memory: GpuMemory;
  readonly #blockCount: number;
  readonly #caches: readonly Cache[];
  readonly #slots: BlockSlots;
  /** A block on its way from one slot to another of the same buffer. */
  readonly #passage: GPUBuffer;
  #replacements = 0;

  /** With room for the first blocks; throws GpuMemoryError where there is none, or all of them could never be bound. */
  static async allocate(
    device: GPUDevice,
    memory: GpuMemory,
    spec: ModelSpec,
    { kvType, blockCount, bindingBytes }: KvCacheOptions,
  ): Promise<KvCache> {
    const sizes = cacheBlockBytes(spec, kvType);
    const largest = Math.max(4, ...sizes);
    const most = Math.floor(bindingBytes / largest);
    if (blockCount > most) {
      throw new GpuMemoryError(
        `${blockCount} KV blocks of this model are more than the GPU can bind; choose at most ${most}`,
      );
    }
    const blocks = Math.min(blockCount, FIRST_BLOCKS);
    const caches: Cache[] = [];
    for (const blockBytes of sizes) {
      const buffer = new ReplaceableBuffer(await memory.storage('KV cache', blocks * blockBytes));
      caches.push({ blockBytes, buffer, blocks });
    }
    return new KvCache(device, memory, blockCount, caches, await memory.storage('KV block', largest));
  }

  private constructor(
    device: GPUDevice,
    memory: GpuMemory,
    blockCount: number,
    caches: readonly Cache[],
    passage: GPUBuffer,
  ) {
    this.#device = device;
    this.#memory = memory;
    this.#blockCount = blockCount;
    this.#caches = caches;
    this.#passage = passage;
    this.#slots = new BlockSlots(blockCount);
  }

  get buffers(): readonly ReplaceableBuffer[] {
    return this.#caches.map(({ buffer }) => buffer);
  }

  /** How often a buffer was replaced; what was bound or encoded before is void then. */
  get replacements(): number {
    return this.#replacements;
  }

  get capacity(): number {
    return Math.min(this.#blockCount, ...this.#caches.map(({ blocks }) => blocks));
  }

  /** Blocks that would hold something after a batch. */
  needed(batch: Batch): number {
    return this.#slots.needed(batch);
  }

  /** The batch with slots in place of blocks; there is room for what it writes. */
  place(batch: Batch): Batch {
    this.#slots.assign(batch);
    return this.#slots.resolve(batch);
  }

  /** Where a block that holds something lies in each cache. */
  placesOf(block: number): BufferPart[] {
    return this.#partsOf(this.#slots.slotOf(block));
  }

  /** The same of one that may hold nothing yet; throws where there is no memory for it. */
  placesFor(block: number): BufferPart[] {
    return this.#partsOf(this.#slots.slotFor(block, this.capacity));
  }

  #partsOf(slot: number): BufferPart[] {
    return this.#caches.map(({ buffer, blockBytes }) => ({
      buffer: buffer.current,
      at: slot * blockBytes,
      bytes: blockBytes,
    }));
  }

  release(blocks: Int32Array): void {
    this.#slots.release(blocks);
  }

  async fit(needed: number, most: number): Promise<number> {
    const limit = Math.max(this.#slots.inUse, Math.min(most, this.#blockCount));
    if (this.#isAbove(limit)) await this.#shrink(limit);
    const { capacity } = this;
    const least = Math.min(needed, limit);
    if (least <= capacity) return capacity;
    // Twice as many, so that all copying together is no more than what was written; where that is refused, what is left.
    let goal = Math.min(limit, Math.max(least, 2 * capacity));
    while (goal > capacity && !(await this.#grow(goal))) {
      goal = goal > least ? least : capacity + Math.floor((goal - capacity) / 2);
    }
    return this.capacity;
  }

  #isAbove(blocks: number): boolean {
    return this.#caches.some((cache) => cache.blocks > blocks);
  }

  /** False, and as it was, where the GPU has no memory for it. */
  async #grow(blocks: number): Promise<boolean> {
    const before = this.capacity;
    if (await this.#resize((cache) => cache.blocks < blocks, blocks)) return true;
    await this.#resize((cache) => cache.blocks > before, before);
    return false;
  }

  /** Where the GPU has no memory for a smaller buffer next to the larger one, that one stays. */
  async #shrink(blocks: number): Promise<void> {
    this.#move(this.#slots.compact(blocks));
    await this.#resize((cache) => cache.blocks > blocks, blocks);
  }

  /** Replaces buffers; false where one could not be. When it returns, the memory of the old ones is the GPU's again. */
  async #resize(isMeant: (cache: Cache) => boolean, blocks: number): Promise<boolean> {
    const kept = Math.min(this.#slots.span, blocks);
    let leaving = 0;
    try {
      for (const cache of this.#caches.filter(isMeant)) {
        leaving += cache.blocks * cache.blockBytes;
        await this.#replace(cache, blocks, kept);
        if (leaving < LEAVING_BYTES) continue;
        await this.#device.queue.onSubmittedWorkDone();
        leaving = 0;
      }
      return true;
    } catch (error) {
      if (error instanceof GpuMemoryError) return false;
      throw error;
    } finally {
      if (leaving > 0) await this.#device.queue.onSubmittedWorkDone();
    }
  }

  async #replace(cache: Cache, blocks: number, kept: number): Promise<void> {
    const old = cache.buffer.current;
    const made = await this.#memory.storage('KV cache', blocks * cache.blockBytes);
    if (kept > 0) {
      const encoder = this.#device.createCommandEncoder();
      encoder.copyBufferToBuffer(old, 0, made, 0, kept * cache.blockBytes);
      this.#device.queue.submit([encoder.finish()]);
    }
    cache.buffer.current = made;
    cache.blocks = blocks;
    this.#replacements++;
    this.#memory.free(old);
  }

  /** Through a buffer between them: one buffer cannot be the source and the target of a copy. */
  #move(moves: readonly SlotMove[]): void {
    if (moves.length === 0) return;
    const encoder = this.#device.createCommandEncoder();
    for (const { buffer, blockBytes } of this.#caches) {
      for (const { from, to } of moves) {
        encoder.copyBufferToBuffer(buffer.current, from * blockBytes, this.#passage, 0, blockBytes);
        encoder.copyBufferToBuffer(this.#passage, 0, buffer.current, to * blockBytes, blockBytes);
      }
    }
    this.#device.queue.submit([encoder.finish()]);
  }
}
