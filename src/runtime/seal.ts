// Seals bytes with a secret (AES-256-GCM), each under a name, so that nobody can put one in the place of another.

import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto';
import type { RandomBytes } from './clock.ts';

const CIPHER = 'aes-256-gcm';
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

export class Seal {
  readonly #key: Uint8Array;
  readonly #randomBytes: RandomBytes;

  constructor(secret: string, randomBytes: RandomBytes) {
    this.#randomBytes = randomBytes;
    this.#key = new Uint8Array(hkdfSync('sha256', secret, '', 'chairlift request archive', KEY_BYTES));
  }

  close(plain: Uint8Array, name: string): Uint8Array {
    const nonce = this.#randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, this.#key, nonce).setAAD(Buffer.from(name));
    const sealed = [cipher.update(plain), cipher.final()];
    return Buffer.concat([nonce, cipher.getAuthTag(), ...sealed]);
  }

  /** Undefined where it was closed with another key or under another name, or is not whole. */
  open(sealed: Uint8Array, name: string): Uint8Array | undefined {
    const start = NONCE_BYTES + TAG_BYTES;
    if (sealed.length < start) return undefined;
    try {
      const decipher = createDecipheriv(CIPHER, this.#key, sealed.subarray(0, NONCE_BYTES))
        .setAAD(Buffer.from(name))
        .setAuthTag(sealed.subarray(NONCE_BYTES, start));
      return Buffer.concat([decipher.update(sealed.subarray(start)), decipher.final()]);
    } catch {
      return undefined;
    }
  }
}
