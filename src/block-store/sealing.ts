// Blocks are sealed with keys that are derived from the store's: one for each tenant, and one for the index of each segment, since
// keys of blocks would confirm guesses of prompts. What opens a block's record has proved all of its bytes, so there is no other checksum.
//
//   record   tenant 16 · nonce 12 · sealed bytes · tag 16

import { Buffer } from 'node:buffer';
import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto';
import { isZero, MARK_BYTES, SLOT_BYTES, TENANT_BYTES } from './index-slots.ts';

const SEAL = 'aes-256-gcm';
const STREAM = 'aes-256-ctr';
export const STORE_KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const COUNTER_BYTES = 16;
const HEAD_BYTES = TENANT_BYTES + NONCE_BYTES;

/** Of a record beside the block's own bytes. */
export const RECORD_OVERHEAD_BYTES = HEAD_BYTES + TAG_BYTES;

/** Opened at once: what a cipher gives is made anew each time, and as much as a cache holds costs little. */
const PIECE_BYTES = 256 * 2 ** 10;

/** Derived keys that are kept at most; tenants may come and go. */
const KEPT_KEYS = 4096;

/** A block as it lies in a segment: in parts, one after the other. */
export interface SealedRecord {
  readonly parts: readonly Uint8Array[];
  readonly bytes: number;
}

/** Where it lay, there are zeros now: it was removed. */
export type UnsealFailure = 'damaged' | 'removed';

export class Sealing {
  readonly #storeKey: Uint8Array;
  readonly #tenantKeys = new Map<string, Buffer>();
  readonly #markKey: Buffer;
  /** Tells segments of this store from those that were sealed with another key, and says nothing of it. */
  readonly mark: Uint8Array;

  constructor(storeKey: Uint8Array) {
    this.#storeKey = storeKey;
    this.#markKey = this.#derive('tenant');
    this.mark = this.#derive('mark').subarray(0, MARK_BYTES);
  }

  /** A name for a tenant that says nothing about it to those who lack the store's key. */
  tenantMark(tenant: string): Buffer {
    return createHmac('sha256', this.#markKey).update(tenant).digest().subarray(0, TENANT_BYTES);
  }

  seal(blockKey: Uint8Array, tenant: Uint8Array, bytes: Uint8Array): SealedRecord {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(SEAL, this.#tenantKey(tenant), nonce).setAAD(blockKey);
    const sealed = cipher.update(bytes);
    const parts = [tenant, nonce, sealed, cipher.final(), cipher.getAuthTag()];
    return { parts: parts.filter(({ length }) => length > 0), bytes: bytes.length + RECORD_OVERHEAD_BYTES };
  }

  /** The block's bytes, if all are those that were sealed for this key; in memory that `allocate` gives. */
  unseal(
    blockKey: Uint8Array,
    record: Uint8Array,
    allocate = (bytes: number) => new Uint8Array(bytes),
  ): Uint8Array | UnsealFailure {
    if (record.length < RECORD_OVERHEAD_BYTES) return 'damaged';
    const end = record.length - TAG_BYTES;
    const tag = record.subarray(end);
    if (isZero(record.subarray(0, HEAD_BYTES)) && isZero(tag)) return 'removed';
    const key = this.#tenantKey(record.subarray(0, TENANT_BYTES));
    const nonce = record.subarray(TENANT_BYTES, HEAD_BYTES);
    const decipher = createDecipheriv(SEAL, key, nonce).setAAD(blockKey).setAuthTag(tag);
    const bytes = allocate(end - HEAD_BYTES);
    for (let from = HEAD_BYTES; from < end; from += PIECE_BYTES) {
      const piece = record.subarray(from, Math.min(from + PIECE_BYTES, end));
      bytes.set(decipher.update(piece), from - HEAD_BYTES);
    }
    try {
      decipher.final();
    } catch {
      return 'damaged';
    }
    return bytes;
  }

  /** Enciphers slots of a segment's index, or deciphers them: it is the same. */
  cipherSlots(segment: string, firstSlot: number, slots: Uint8Array): Buffer {
    const counter = Buffer.alloc(COUNTER_BYTES);
    counter.writeUInt32BE((firstSlot * SLOT_BYTES) / COUNTER_BYTES, COUNTER_BYTES - 4);
    return createCipheriv(STREAM, this.#derive(`index ${segment}`), counter).update(slots);
  }

  #tenantKey(tenant: Uint8Array): Buffer {
    const name = Buffer.from(tenant).toString('hex');
    const known = this.#tenantKeys.get(name);
    if (known !== undefined) return known;
    if (this.#tenantKeys.size >= KEPT_KEYS) this.#tenantKeys.clear();
    const key = this.#derive(`blocks of ${name}`);
    this.#tenantKeys.set(name, key);
    return key;
  }

  #derive(purpose: string): Buffer {
    const salt = 'chairlift block store 1';
    return Buffer.from(hkdfSync('sha256', this.#storeKey, salt, purpose, STORE_KEY_BYTES));
  }
}
