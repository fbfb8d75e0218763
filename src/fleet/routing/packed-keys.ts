// Keys as text, for messages in JSON: 8 bytes a key, little-endian, in base64.

import { KEY_LANES } from '../../engine/cache/prefix-key.ts';

const KEY_BYTES = 4 * KEY_LANES;

export function packKeys(keys: Int32Array): string {
  const bytes = Buffer.alloc(4 * keys.length);
  for (let i = 0; i < keys.length; i++) bytes.writeInt32LE(keys[i] as number, 4 * i);
  return bytes.toString('base64');
}

/** Undefined where the text is not whole keys. */
export function unpackKeys(text: string): Int32Array | undefined {
  const bytes = Buffer.from(text, 'base64');
  if (bytes.length % KEY_BYTES !== 0 || bytes.toString('base64') !== text) return undefined;
  const keys = new Int32Array(bytes.length / 4);
  for (let i = 0; i < keys.length; i++) keys[i] = bytes.readInt32LE(4 * i);
  return keys;
}
