// How the index of a segment lies in its file: slots of one size, the first for what the segment is, the others for a block
// each. Every slot has a checksum, so that a torn or damaged one is passed over and the others are read.
//
//   slot 0   magic 20 · version 4 · mark of the store's key 8 · 44 zeros · checksum 4
//   slot n   key 32 · tenant 16 · offset 8 · record's bytes 4 · created 4 · label 8 · 4 zeros · checksum 4, enciphered

import { Buffer } from 'node:buffer';
import { BLOCK_KEY_BYTES, type BlockLabel } from './block-tier.ts';

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
const LABEL_AT = CREATED_AT + 4;
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
  /** Absent where it was written without one; earlier versions wrote none. */
  readonly label?: BlockLabel | undefined;
}

export function writeHeader(mark: Uint8Array): Buffer {
  const slot = Buffer.alloc(SLOT_BYTES);
  slot.set(MAGIC);
  slot.writeUInt32LE(VERSION, VERSION_AT);
  slot.set(mark, MARK_AT);
  slot.writeUInt32LE(checksum(slot, 0), CHECKSUM_AT);
  return slot;
}

/** Whether this program, with this key, can read the segment. */
export function isOwnHeader(slot: Uint8Array, mark: Uint8Array): boolean {
  return slot.length >= SLOT_BYTES && writeHeader(mark).equals(slot.subarray(0, SLOT_BYTES));
}

/** `into` has zeros at `at`. */
function writeSlot(slot: IndexSlot, into: Buffer, at: number): void {
  const { key, tenant, offset, bytes, createdS, label } = slot;
  into.set(key, at);
  into.set(tenant, at + TENANT_AT);
  into.writeDoubleLE(offset, at + OFFSET_AT);
  into.writeUInt32LE(bytes, at + BYTES_AT);
  into.writeUInt32LE(createdS, at + CREATED_AT);
  if (label !== undefined) {
    into.writeInt32LE(label.high, at + LABEL_AT);
    into.writeInt32LE(label.low, at + LABEL_AT + 4);
  }
  into.writeUInt32LE(checksum(into, at), at + CHECKSUM_AT);
}

/** Undefined where the slot is damaged. */
export function readSlot(slots: Buffer, at: number): IndexSlot | undefined {
  return slots.readUInt32LE(at + CHECKSUM_AT) === checksum(slots, at) ? parseSlot(slots, at) : undefined;
}

function parseSlot(slots: Buffer, at: number): IndexSlot {
  const [high, low] = [slots.readInt32LE(at + LABEL_AT), slots.readInt32LE(at + LABEL_AT + 4)];
  return {
    key: slots.subarray(at, at + BLOCK_KEY_BYTES),
    tenant: slots.subarray(at + TENANT_AT, at + OFFSET_AT),
    offset: slots.readDoubleLE(at + OFFSET_AT),
    bytes: slots.readUInt32LE(at + BYTES_AT),
    createdS: slots.readUInt32LE(at + CREATED_AT),
    ...(high === 0 && low === 0 ? {} : { label: { high, low } }),
  };
}

/** As they lie in an index, and as another thread has them soonest. */
export function packSlots(slots: readonly IndexSlot[]): Uint8Array<ArrayBuffer> {
  const packed = Buffer.from(new ArrayBuffer(slots.length * SLOT_BYTES));
  for (const [number, slot] of slots.entries()) writeSlot(slot, packed, number * SLOT_BYTES);
  return new Uint8Array(packed.buffer);
}

export function* unpackSlots(packed: Uint8Array): Generator<IndexSlot> {
  const slots = Buffer.from(packed.buffer, packed.byteOffset, packed.length);
  for (let at = 0; at < slots.length; at += SLOT_BYTES) yield parseSlot(slots, at);
}

/** What was removed is overwritten with zeros. */
export function isZero(bytes: Uint8Array, from = 0, to = bytes.length): boolean {
  for (let at = from; at < to; at++) if (bytes[at] !== 0) return false;
  return true;
}

const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = (value >>> 1) ^ (value & 1 ? 0xedb88320 : 0);
  return value;
});

/** CRC-32 of what stands before the checksum; `zlib.crc32` came with later versions of Node 20. */
function checksum(slots: Uint8Array, from: number): number {
  const end = from + CHECKSUM_AT;
  let value = 0xffffffff;
  for (let at = from; at < end; at++) {
    value = (value >>> 8) ^ (table[(value ^ (slots[at] as number)) & 0xff] as number);
  }
  return ~value >>> 0;
}
