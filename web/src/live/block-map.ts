// The state of every KV block, as snapshots of the engine tell it.

import {
  applyChange,
  type BlockChange,
  type BlockState,
  FIRST_LANE,
} from '../../../src/engine/live/snapshot.ts';

export type ChangedBlocks = readonly [first: number, count: number];

export class BlockMap {
  #states: Int32Array = new Int32Array(0);
  readonly #listeners = new Set<(changed: readonly ChangedBlocks[]) => void>();

  get length(): number {
    return this.#states.length;
  }

  stateOf(block: number): BlockState {
    return this.#states[block] as number;
  }

  onChange(listener: (changed: readonly ChangedBlocks[]) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  apply(change: BlockChange): void {
    if (!change.whole && change.blocks.length === 0) return;
    this.#states = applyChange(this.#states, change);
    const changed: readonly ChangedBlocks[] = change.whole
      ? [[0, change.blockCount]]
      : change.blocks.map(([first, count]) => [first, count]);
    for (const listener of this.#listeners) listener(changed);
  }

  counts() {
    const by = [0, 0, 0, 0, 0];
    for (const state of this.#states)
      by[Math.min(state, FIRST_LANE)] = (by[Math.min(state, FIRST_LANE)] ?? 0) + 1;
    const [noMemory = 0, empty = 0, cached = 0, shared = 0, held = 0] = by;
    return { noMemory, empty, cached, shared, held };
  }
}
