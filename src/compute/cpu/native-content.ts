// Content of a native model's KV blocks and state slots: the same bytes on the processor and on a GPU, which compute the same bits.

import type { KvContent, KvType } from '../backend.ts';
import { checkRange } from '../batch.ts';
import type { HeldBlocks } from '../held-blocks.ts';
import type { Addon, ModelHandle } from './binding.ts';

interface NativeModel {
  readonly addon: Addon;
  readonly handle: ModelHandle;
  readonly kvType: KvType;
  readonly stateSlots: number | undefined;
  readonly held: HeldBlocks;
  /** Throws during a step, and once the model is closed. */
  readonly checkIdle: () => void;
  /** Of its MTP head, of which blocks hold something, too: see `headFormat`. */
  readonly head?: string;
  /** Where a block that holds something lies. */
  readonly placeOf?: (block: number) => number;
  /** Where a block is to lie that may hold nothing yet. */
  readonly placeFor?: (block: number) => number;
}

const itself = (block: number) => block;

export function nativeContent({
  addon,
  handle,
  kvType,
  stateSlots = 0,
  held,
  checkIdle,
  head = '',
  placeOf = itself,
  placeFor = itself,
}: NativeModel): KvContent {
  const { block: blockBytes, state: stateBytes } = addon.contentBytes(handle);
  return {
    format: `native ${kvType}${head}`,
    blockBytes,
    stateBytes,
    async readBlocks(blocks) {
      checkIdle();
      held.checkContent(blocks);
      return Array.from(blocks, (block) => {
        const bytes = new Uint8Array(blockBytes);
        addon.readBlock(handle, placeOf(block), bytes);
        return bytes;
      });
    },
    writeBlock(block, bytes) {
      checkIdle();
      held.put(block);
      addon.writeBlock(handle, placeFor(block), bytes);
    },
    async readState(slot) {
      checkIdle();
      checkRange('state slot', Int32Array.of(slot), stateSlots);
      const bytes = new Uint8Array(stateBytes);
      addon.readState(handle, slot, bytes);
      return bytes;
    },
    writeState(slot, bytes) {
      checkIdle();
      checkRange('state slot', Int32Array.of(slot), stateSlots);
      addon.writeState(handle, slot, bytes);
    },
  };
}
