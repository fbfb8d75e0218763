// What every KV block is used for, as the engine tells it: all of them at first, then what changed.

import type { BlockState } from '../../../src/server/live/live-event.ts';

export const NO_MEMORY = 0;
export const EMPTY = 1;
export const CACHED = 2;
export const SHARED = 3;
/** The state of a block that the rider of seat 0 holds alone. */
export const FIRST_SEAT = 4;

export type BlockRun = readonly [first: number, count: number];

export interface BlockCounts {
  readonly noMemory: number;
  readonly empty: number;
  readonly cached: number;
  readonly shared: number;
  readonly held: number;
}

export class BlockMap {
  #states = new Uint16Array(0);
  readonly #listeners = new Set<(changed: readonly BlockRun[]) => void>();

  get length(): number {
    return this.#states.length;
  }

  /** Of a block that there is. */
  stateOf(block: number): BlockState {
    return this.#states[block] as number;
  }

  onChange(listener: (changed: readonly BlockRun[]) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  reset(blockCount: number, runs: readonly (readonly [number, BlockState])[]): void {
    const states = new Uint16Array(blockCount);
    let first = 0;
    for (const [count, state] of runs) {
      states.fill(state, first, first + count);
      first += count;
    }
    this.#states = states;
    this.#tell([[0, blockCount]]);
  }

  change(runs: readonly (readonly [number, number, BlockState])[]): void {
    if (runs.length === 0) return;
    for (const [first, count, state] of runs) this.#states.fill(state, first, first + count);
    this.#tell(runs.map(([first, count]) => [first, count]));
  }

  counts(): BlockCounts {
    const by = [0, 0, 0, 0, 0];
    for (const state of this.#states)
      by[Math.min(state, FIRST_SEAT)] = (by[Math.min(state, FIRST_SEAT)] ?? 0) + 1;
    const [noMemory = 0, empty = 0, cached = 0, shared = 0, held = 0] = by;
    return { noMemory, empty, cached, shared, held };
  }

  #tell(changed: readonly BlockRun[]): void {
    for (const listener of this.#listeners) listener(changed);
  }
}
