// Recurrent states of sequences, in slots. A slot has memory from its first use until it is released.

import type { RecurrentStateSpec } from '../../model/spec.ts';
import type { BatchStates } from '../backend.ts';

/** A sequence's rows in a step, and the slots its states are read from and written to. */
export interface StatesOfSequence {
  readonly firstRow: number;
  readonly endRow: number;
  readonly from: number | undefined;
  readonly kept: readonly { readonly row: number; readonly slot: number }[];
}

export class RecurrentStates {
  readonly #specs: readonly RecurrentStateSpec[];
  readonly #slots: (Float32Array[] | undefined)[];

  constructor(specs: readonly RecurrentStateSpec[], slotCount: number) {
    this.#specs = specs;
    this.#slots = Array.from({ length: slotCount });
  }

  /** A copy of one of the model's recurrent states; zeros where nothing came before. */
  read(index: number, slot: number | undefined): Float32Array {
    if (slot === undefined) return new Float32Array((this.#specs[index] as RecurrentStateSpec).size);
    const held = this.#slots[slot]?.[index];
    if (held === undefined) throw new Error(`state slot ${slot} holds nothing`);
    return held.slice();
  }

  write(index: number, slot: number, values: Float32Array): void {
    this.#slots[slot] ??= this.#specs.map(({ size }) => new Float32Array(size));
    this.#slots[slot][index]?.set(values);
  }

  /** All of a slot's states. The slot has memory from now on. */
  partsOf(slot: number): Float32Array[] {
    this.#slots[slot] ??= this.#specs.map(({ size }) => new Float32Array(size));
    return this.#slots[slot];
  }

  /** Goes through the rows of all sequences in order; `advance` changes the state in place. */
  through(
    index: number,
    sequences: readonly StatesOfSequence[],
    advance: (row: number, state: Float32Array) => void,
  ): void {
    for (const { firstRow, endRow, from, kept } of sequences) {
      const state = this.read(index, from);
      for (let row = firstRow; row < endRow; row++) {
        advance(row, state);
        for (const { row: last, slot } of kept) if (last === row) this.write(index, slot, state);
      }
    }
  }

  release(slots: Int32Array): void {
    for (const slot of slots) this.#slots[slot] = undefined;
  }
}

export function sequenceStates(rowStarts: Int32Array, recurrentStates: BatchStates): StatesOfSequence[] {
  return Array.from(recurrentStates.from, (slot, sequence) => {
    const begin = recurrentStates.starts[sequence] as number;
    const end = recurrentStates.starts[sequence + 1] as number;
    return {
      firstRow: rowStarts[sequence] as number,
      endRow: rowStarts[sequence + 1] as number,
      from: slot < 0 ? undefined : slot,
      kept: Array.from({ length: end - begin }, (_, index) => ({
        row: recurrentStates.rows[begin + index] as number,
        slot: recurrentStates.slots[begin + index] as number,
      })),
    };
  });
}
