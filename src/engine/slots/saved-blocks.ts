// The blocks of a prefix as a saved slot has them: which there are, in memory and below, and in which order they lie in the file: each
// block, and after it the recurrent states at its end, where these are kept.

import type { KvContent } from '../../compute/backend.ts';
import type { BlockTables } from '../cache/block-tables.ts';
import { stateKey } from '../tiers/block-keys.ts';
import type { Hold } from './hold.ts';
import type { PrefixHolder } from './prefix-holder.ts';
import type { SlotContext } from './slot-context.ts';

/** Bytes that are read or written at once. */
const PIECE_BYTES = 16 << 20;

/** A block of the file, or a state. */
export interface SavedPart {
  readonly key: Buffer;
  readonly bytes: number;
  /** The block's place in the prefix; of a state that of the block before it. */
  readonly place: number;
  readonly isState: boolean;
}

export function savedParts(
  keys: readonly Buffer[],
  states: readonly number[],
  { blockBytes, stateBytes }: Pick<KvContent, 'blockBytes' | 'stateBytes'>,
): SavedPart[] {
  const withState = new Set(states);
  return keys.flatMap((key, place) => [
    { key, bytes: blockBytes, place, isState: false },
    ...(withState.has(place) ? [{ key: stateKey(key), bytes: stateBytes, place, isState: true }] : []),
  ]);
}

export function* piecesOf(parts: readonly SavedPart[]): Generator<SavedPart[]> {
  let piece: SavedPart[] = [];
  let bytes = 0;
  for (const part of parts) {
    if (piece.length > 0 && bytes + part.bytes > PIECE_BYTES) {
      yield piece;
      piece = [];
      bytes = 0;
    }
    piece.push(part);
    bytes += part.bytes;
  }
  if (piece.length > 0) yield piece;
}

/** What of a prefix can be saved: held in memory until `release`, or in a tier below. */
export class AvailableBlocks {
  /** Blocks in memory, from the first on. */
  readonly #blocks: readonly number[];
  /** State slots in memory, by the place of their block. */
  readonly #states = new Map<number, number>();
  /** Leading blocks that can be had, as far as a sequence can go on after them. */
  readonly end: number;
  /** Places after which states can be had. */
  readonly states: readonly number[];
  readonly #tables: BlockTables;
  readonly #hold: Hold;

  constructor(
    { tables, stored, holds }: Pick<SlotContext, 'tables' | 'stored' | 'holds'>,
    holder: PrefixHolder,
    keys: readonly Buffer[],
  ) {
    this.#tables = tables;
    this.#blocks = tables.match(holder);
    const { recurrentStates } = tables;
    const below = keys.slice(this.#blocks.length);
    const reach = this.#blocks.length + (stored?.run(below)?.blocks ?? 0);
    const states: number[] = [];
    for (let place = 0; place < reach && recurrentStates !== undefined; place++) {
      const block = this.#blocks[place];
      const slot = block === undefined ? undefined : recurrentStates.checkpointAfter(block);
      if (slot !== undefined) this.#states.set(place, slot);
      if (slot !== undefined || stored?.has(stateKey(keys[place] as Buffer))) states.push(place);
    }
    this.states = states;
    this.end = recurrentStates === undefined ? reach : (states.at(-1) ?? -1) + 1;
    for (const block of this.#blocks) tables.pool.retain(block, true);
    for (const slot of this.#states.values()) recurrentStates?.pool.retain(slot, true);
    this.#hold = holds.add(() => this.#letGo());
  }

  /** Where it is in memory: the block's number, or the state's slot. */
  find({ place, isState }: SavedPart): number | undefined {
    return isState ? this.#states.get(place) : this.#blocks[place];
  }

  /** Throws where it gave way. */
  assertHeld(): void {
    this.#hold.assertHeld();
  }

  release(): void {
    this.#hold.release();
  }

  /** The last first, as sequences do, so that no parent goes before its children. */
  #letGo(): void {
    for (const block of this.#blocks.toReversed()) this.#tables.pool.release(block);
    for (const slot of this.#states.values()) this.#tables.recurrentStates?.pool.release(slot);
  }
}
