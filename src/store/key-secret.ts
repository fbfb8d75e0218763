// The secret side of an API key: how it is made, hashed and compared. Only hash and prefix are ever stored.

import { createHash, randomInt, timingSafeEqual } from 'node:crypto';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const MARK = 'cl-';
// 43 letters of 62 carry 256 random bits; the 8 that are shown leave 208 of them secret.
const LETTERS = 43;
const SHOWN_LETTERS = 8;

export function randomLetters(count: number): string {
  return Array.from({ length: count }, () => ALPHABET[randomInt(ALPHABET.length)]).join('');
}

export function makeKey(): string {
  return MARK + randomLetters(LETTERS);
}

/** The part of a key that is no secret: it finds the record, the hash then decides. */
export function prefixOf(key: string): string {
  return key.slice(0, MARK.length + SHOWN_LETTERS);
}

/**
 * One round of SHA-256, unsalted. Slow salted hashes protect passwords, which can be guessed; nobody guesses
 * 208 random bits, and a slow hash would be paid by every request.
 */
export function hashKey(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}

/** Takes the same time wherever the two differ. */
export function sameHash(left: Uint8Array, right: Uint8Array): boolean {
  return timingSafeEqual(left, right);
}
