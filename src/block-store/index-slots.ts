// How the index of a segment lies in its file: slots of one size, the first for what the segment is, the others for a block
// each. Every slot has a checksum, so that a torn or damaged one is passed over and the others are read.
//
//   slot 0   magic 20 · version 4 · mark of the store's key 8 · 44 zeros · checksum 4
//   slot n   key 32 · tenant 16 · offset 8 · record's bytes 4 · created 4 · 12 zeros · checksum 4, enciphered

import { Buffer } from 'node:buffer';
import { BLOCK_KEY_BYTES } from './block-tier.ts';

/** A multiple of the cipher's 16 bytes. */
export const SLOT_BYTES = 80;

export const VERSION = 1;
export const MARK_BYTES = 8;
export const TENANT_BYTES = 16;

const MAGIC = Buffer.from('chairlift KV blocks\n');
const VERSION_AT = 20;
const MARK_AT = 24;

const TENANT_AT = BLOCK_KEY_BYTES;
const OFFSET_AT = TENANT_AT + TENANT_BYTES;
const BYTES_AT = OFFSET_AT + 8;
const CREATED_AT = BYTES_AT + 4;
const CHECKSUM_AT = SLOT_BYTES - 4;

/** A block in a segment. */
export interface IndexSlot {
  readonly key: Uint8Array;
  /** Whose it is, as the store names tenants. */
  readonly tenant: Uint8Array;
  /** Of the block's record in the segment. */
  readonly offset: number;
  readonly bytes: number;
  /** When it was first written, in seconds since 1970. */
  readonly createdS: number;
}

export function writeHeader(mark: Uint8Array): Buffer {
  const slot = Buffer.alloc(SLOT_BYTES);
  slot.set(MAGIC);
  slot.writeUInt32LE(VERSION, VERSION_AT);
  slot.set(mark, MARK_AT);
  slot.writeUInt32LE(checksum(slot), CHECKSUM_AT);
  return slot;
}

/** Whether this program, with this key, can read the segment. */
export function isOwnHeader(slot: Uint8Array, mark: Uint8Array): boolean {
  return slot.length >= SLOT_BYTES && writeHeader(mark).equals(slot.subarray(0, SLOT_BYTES));
}

function writeSlot({ key, tenant, offset, bytes, createdS }: IndexSlot, into: Buffer): void {
  into.fill(0);
  into.set(key);
  into.set(tenant, TENANT_AT);
  into.writeDoubleLE(offset, OFFSET_AT);
  into.writeUInt32LE(bytes, BYTES_AT);
  into.writeUInt32LE(createdS, CREATED_AT);
  into.writeUInt32LE(checksum(into), CHECKSUM_AT);
}

/** Undefined where the slot is damaged. */
export function readSlot(slot: Buffer): IndexSlot | undefined {
  return slot.readUInt32LE(CHECKSUM_AT) === checksum(slot) ? parseSlot(slot) : undefined;
}

function parseSlot(slot: Buffer): IndexSlot {
  return {
    key: slot.subarray(0, BLOCK_KEY_BYTES),
    tenant: slot.subarray(TENANT_AT, OFFSET_AT),
    offset: slot.readDoubleLE(OFFSET_AT),
    bytes: slot.readUInt32LE(BYTES_AT),
    createdS: slot.readUInt32LE(CREATED_AT),
  };
}

/** For another thread: one buffer is handed over sooner than many objects are copied. */
export function packSlots(slots: readonly IndexSlot[]): Uint8Array<ArrayBuffer> {
  const packed = Buffer.from(new ArrayBuffer(slots.length * SLOT_BYTES));
  for (const [at, slot] of slots.entries()) {
    writeSlot(slot, packed.subarray(at * SLOT_BYTES, (at + 1) * SLOT_BYTES));
  }
  return new Uint8Array(packed.buffer);
}

export function* unpackSlots(packed: Uint8Array): Generator<IndexSlot> {
  const bytes = Buffer.from(packed.buffer, packed.byteOffset, packed.length);
  for (let from = 0; from < bytes.length; from += SLOT_BYTES) {
    yield parseSlot(bytes.subarray(from, from + SLOT_BYTES));
  }
}

/** What was removed is overwritten with zeros. */
export function isZero(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte === 0);
}

const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = (value >>> 1) ^ (value & 1 ? 0xedb88320 : 0);
  return value;
});

/** CRC-32 of what stands before the checksum; `zlib.crc32` came with later versions of Node 20. */
function checksum(slot: Uint8Array): number {
  let value = 0xffffffff;
  for (let at = 0; at < CHECKSUM_AT; at++) {
    value = (value >>> 8) ^ (table[(value ^ (slot[at] as number)) & 0xff] as number);
  }
  return ~value >>> 0;
}
