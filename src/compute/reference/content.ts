// Content of the reference backend's KV blocks and state slots: their floats, one after the other.

import type { ModelSpec } from '../../model/spec.ts';
import { headFormat } from '../../model/spec-walk.ts';
import type { KvContent } from '../backend.ts';
import { checkRange } from '../batch.ts';
import type { HeldBlocks } from '../held-blocks.ts';
import { blockBytes, type KvCache } from './kv-cache.ts';
import type { RecurrentStates } from './recurrent-states.ts';

interface Memory {
  readonly cache: KvCache;
  readonly recurrentStates: RecurrentStates;
  readonly held: HeldBlocks;
}

/** `opened` throws once the backend is closed. */
export function referenceContent(spec: ModelSpec, stateSlots: number, opened: () => Memory): KvContent {
  const statesOf = (slot: number): Float32Array[] => {
    checkRange('state slot', Int32Array.of(slot), stateSlots);
    return opened().recurrentStates.partsOf(slot);
  };
  return {
    format: `reference f32${headFormat(spec)}`,
    blockBytes: blockBytes(spec),
    stateBytes: spec.recurrentStates.reduce((sum, { size }) => sum + 4 * size, 0),
    async readBlocks(blocks) {
      const { cache, held } = opened();
      held.checkContent(blocks);
      return Array.from(blocks, (block) => joined(cache.partsOf(block)));
    },
    writeBlock(block, bytes) {
      const { cache, held } = opened();
      held.put(block);
      fill(cache.partsOf(block), bytes);
    },
    async readState(slot) {
      return joined(statesOf(slot));
    },
    writeState(slot, bytes) {
      fill(statesOf(slot), bytes);
    },
  };
}

function joined(parts: readonly Float32Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((sum, { byteLength }) => sum + byteLength, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(bytesOf(part), at);
    at += part.byteLength;
  }
  return whole;
}

function fill(parts: readonly Float32Array[], bytes: Uint8Array): void {
  const size = parts.reduce((sum, { byteLength }) => sum + byteLength, 0);
  if (bytes.length !== size) throw new Error(`content of another size: ${bytes.length} bytes, not ${size}`);
  let at = 0;
  for (const part of parts) {
    bytesOf(part).set(bytes.subarray(at, at + part.byteLength));
    at += part.byteLength;
  }
}

function bytesOf({ buffer, byteOffset, byteLength }: Float32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
