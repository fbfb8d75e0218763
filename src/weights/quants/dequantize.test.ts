import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { type TensorType, tensorLayouts } from '../tensor-type.ts';
import { dequantize } from './dequantize.ts';

// Blocks of random bytes and their values by the Python packages gguf 0.19 (GGUF types) and mlx 0.32
// (quantize and dequantize), all in base64. Scales are large, negative and subnormal.
interface Vectors {
  readonly gguf: Readonly<Record<string, { readonly blocks: string; readonly values: string }>>;
  readonly ggufDigests: Readonly<Record<string, DigestVector>>;
  readonly mlx: Readonly<Record<string, MlxVector>>;
}

/** Many blocks, which reach every entry of a type's tables, and a digest of their values. */
interface DigestVector {
  readonly blocks: number;
  /** The byte of a block that holds the top bits of its scale. */
  readonly top: number;
  readonly sha256: string;
}

interface MlxVector {
  readonly dtype: string;
  readonly weight: string;
  readonly scales: string;
  readonly biases: string;
  readonly values: string;
}

const vectors: Vectors = JSON.parse(
  readFileSync(new URL('./dequantize.vectors.json', import.meta.url), 'utf8'),
);

function bytesOf(base64: string): Uint8Array {
  return new Uint8Array(Buffer.from(base64, 'base64'));
}

function floatsOf(base64: string): Float32Array {
  return new Float32Array(bytesOf(base64).buffer);
}

function dequantized(type: string, bytes: Uint8Array, count: number): Float32Array {
  const out = new Float32Array(count);
  dequantize(type as TensorType, bytes, out);
  // The sign of a zero is of no consequence.
  return out.map((value) => value + 0);
}

/** The top bytes of a linear congruential generator, as the vectors were made of. */
function countedBytes(count: number): Uint8Array {
  let state = 11;
  return Uint8Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state >>> 24;
  });
}

describe('dequantize', () => {
  it.each(Object.entries(vectors.gguf))('%s blocks give the values of the gguf package', (type, vector) => {
    const expected = floatsOf(vector.values).map((value) => value + 0);
    expect(dequantized(type, bytesOf(vector.blocks), expected.length)).toEqual(expected);
  });

  it.each(Object.entries(vectors.ggufDigests))('%s gives them for every code that it has', (type, vector) => {
    const { blockSize, blockBytes } = tensorLayouts[type as TensorType];
    const blocks = countedBytes(vector.blocks * blockBytes);
    // No scale is infinite or NaN.
    for (let at = vector.top; at < blocks.length; at += blockBytes)
      blocks[at] = (blocks[at] as number) & 0xbf;
    const values = dequantized(type, blocks, vector.blocks * blockSize);
    expect(createHash('sha256').update(new Uint8Array(values.buffer)).digest('hex')).toBe(vector.sha256);
  });

  it.each(Object.entries(vectors.mlx))('%s groups give the values of mlx', (name, vector) => {
    const expected = floatsOf(vector.values);
    const type = vector.dtype === 'F32' ? name : `${name}_${vector.dtype}`;
    const numberBytes = vector.dtype === 'F32' ? 4 : 2;
    const [scales, biases, packed] = [vector.scales, vector.biases, vector.weight].map(bytesOf) as [
      Uint8Array,
      Uint8Array,
      Uint8Array,
    ];
    const groups = scales.length / numberBytes;
    const piece = (bytes: Uint8Array, group: number) =>
      bytes.subarray((group * bytes.length) / groups, ((group + 1) * bytes.length) / groups);
    const blocks = Array.from({ length: groups }, (_, group) =>
      [scales, biases, packed].map((bytes) => piece(bytes, group)),
    );
    const actual = dequantized(type, Buffer.concat(blocks.flat()), expected.length);
    for (const [index, value] of expected.entries()) expect(actual[index]).toBeCloseTo(value, 7);
  });

  it('reads blocks at any byte offset of a larger buffer', () => {
    for (const [type, vector] of Object.entries(vectors.gguf)) {
      const blocks = bytesOf(vector.blocks);
      const count = floatsOf(vector.values).length;
      const shifted = new Uint8Array(blocks.length + 3);
      shifted.set(blocks, 3);
      expect(dequantized(type, shifted.subarray(3), count)).toEqual(dequantized(type, blocks, count));
    }
  });

  it('refuses bytes that are not the values asked for', () => {
    expect(() => dequantize('Q4_0', new Uint8Array(18), new Float32Array(31))).toThrow(RangeError);
    expect(() => dequantize('Q4_0', new Uint8Array(17), new Float32Array(32))).toThrow(RangeError);
  });
});
