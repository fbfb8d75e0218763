// Which KV blocks have content: written since the start or the block's last release. A step that would read one without content
// is the caller's mistake, and stops here.

import { type Batch, BLOCK_TOKENS } from './backend.ts';
import { checkRange } from './batch.ts';

export class HeldBlocks {
  readonly #held: Uint8Array;

  constructor(blockCount: number) {
    this.#held = new Uint8Array(blockCount);
  }

  take(batch: Batch): void {
    this.check(batch);
    this.hold(batch);
  }

  /** Throws where a batch that is well formed reads a block without content. */
  check(batch: Batch): void {
    for (let sequence = 0; sequence < batch.starts.length; sequence++) {
      const start = batch.starts[sequence] as number;
      const table = batch.blockStarts[sequence] as number;
      for (let entry = 0; entry * BLOCK_TOKENS < start; entry++) {
        const block = batch.blocks[table + entry] as number;
        if (this.#held[block] === 1) continue;
        throw new Error(`batch: sequence ${sequence} would read block ${block}, which holds nothing`);
      }
    }
  }

  hold(batch: Batch): void {
    for (let sequence = 0; sequence < batch.starts.length; sequence++) this.#hold(batch, sequence);
  }

  /** Throws where content of a block is wanted that has none. */
  checkContent(blocks: Int32Array): void {
    checkRange('block', blocks, this.#held.length);
    for (const block of blocks) {
      if (this.#held[block] !== 1) throw new Error(`block ${block} holds nothing`);
    }
  }

  /** A block whose content is put in; throws where it is no block. */
  put(block: number): void {
    checkRange('block', Int32Array.of(block), this.#held.length);
    this.#held[block] = 1;
  }

  /** Throws where one is no block. */
  release(blocks: Int32Array): void {
    checkRange('released block', blocks, this.#held.length);
    for (const block of blocks) this.#held[block] = 0;
  }

  #hold(batch: Batch, sequence: number): void {
    const start = batch.starts[sequence] as number;
    const end = start + (batch.rowStarts[sequence + 1] as number) - (batch.rowStarts[sequence] as number);
    const table = batch.blockStarts[sequence] as number;
    for (let entry = Math.floor(start / BLOCK_TOKENS); entry * BLOCK_TOKENS < end; entry++) {
      this.#held[batch.blocks[table + entry] as number] = 1;
    }
  }
}
