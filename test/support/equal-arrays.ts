// Lets `toEqual` compare typed arrays byte by byte: value by value it takes a second for some hundred thousand logits. Those
// whose bytes differ are compared as ever. A setup file runs before every test file, and one process runs several.

import { expect } from 'vitest';

const bytesOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);

function haveSameBytes(one: unknown, other: unknown): true | undefined {
  if (!ArrayBuffer.isView(one) || !ArrayBuffer.isView(other)) return undefined;
  if (one.constructor !== other.constructor || one.byteLength !== other.byteLength) return undefined;
  return Buffer.compare(bytesOf(one), bytesOf(other)) === 0 ? true : undefined;
}

const added = Symbol.for('chairlift.equal-arrays');
const state = globalThis as { [added]?: true };
if (!state[added]) {
  state[added] = true;
  expect.addEqualityTesters([haveSameBytes]);
}
