// Every ISA's matrix products against the scalar ones, bit for bit, and those against dequantized float64.

import { describe, expect, it } from 'vitest';
import { addon, hasAddon } from '../../../test/support/native.ts';
import { randomBlocks, seededRandom } from '../../../test/support/random-blocks.ts';
import { dequantize } from '../../weights/quants/dequantize.ts';
import { rowBytes, type TensorType, tensorLayouts } from '../../weights/tensor-type.ts';

const types = Object.keys(tensorLayouts) as TensorType[];
const isQuantized = (type: TensorType) => !/^(F|BF)\d/.test(type);

interface Product {
  readonly type: TensorType;
  readonly weights: Uint8Array;
  readonly outputs: number;
  readonly inputs: number;
  readonly x: Float32Array;
}

function multiply(isa: string, { type, weights, outputs, inputs, x }: Product): Float32Array {
  const out = new Float32Array((x.length / inputs) * outputs).fill(Number.NaN);
  addon().multiply(isa, type, weights, outputs, inputs, x, out);
  return out;
}

function randomProduct(
  type: TensorType,
  outputs: number,
  inputs: number,
  rows: number,
  seed: number,
): Product {
  const random = seededRandom(seed);
  const weights = randomBlocks(type, (outputs * inputs) / tensorLayouts[type].blockSize, random);
  const x = Float32Array.from({ length: rows * inputs }, () => (random() - 0.5) * 10 ** (random() * 4 - 2));
  return { type, weights, outputs, inputs, x };
}

/** Blocks of MLX whose scale and bias are of 16 bits, with the same in float32. */
function withWideScales({ type, weights }: Product, scale: 'F16' | 'BF16'): Uint8Array {
  const { blockBytes } = tensorLayouts[type];
  const blocks = Array.from({ length: weights.length / blockBytes }, (_, block) => {
    const start = block * blockBytes;
    const head = new Float32Array(2);
    dequantize(scale, weights.subarray(start, start + 4), head);
    return [new Uint8Array(head.buffer), weights.subarray(start + 4, start + blockBytes)];
  });
  return Buffer.concat(blocks.flat());
}

/** The same product in float64 over dequantized weights. */
function exactProduct({ type, weights, outputs, inputs, x }: Product): Float64Array {
  const rows = x.length / inputs;
  const out = new Float64Array(rows * outputs);
  const values = new Float32Array(inputs);
  const bytes = rowBytes(type, inputs);
  for (let output = 0; output < outputs; output++) {
    dequantize(type, weights.subarray(output * bytes, (output + 1) * bytes), values);
    for (let row = 0; row < rows; row++) {
      let sum = 0;
      for (let k = 0; k < inputs; k++) sum += (values[k] as number) * (x[row * inputs + k] as number);
      out[row * outputs + output] = sum;
    }
  }
  return out;
}

function relativeError(actual: Float32Array, expected: Float64Array): number {
  let difference = 0;
  let norm = 0;
  for (const [index, value] of expected.entries()) {
    difference += ((actual[index] as number) - value) ** 2;
    norm += value ** 2;
  }
  return Math.sqrt(difference / norm);
}

describe.skipIf(!hasAddon)('matrix kernels (skipped where the addon is not built)', () => {
  it.each(types)('multiply %s weights as their dequantized values would', (type) => {
    const product = randomProduct(type, 40, 512, 3, 7);
    const error = relativeError(multiply('scalar', product), exactProduct(product));
    // Int8 activations in groups of 32 carry about half a percent; float weights only rounding.
    expect(error).toBeLessThan(isQuantized(type) ? 0.02 : 1e-5);
  });

  it.each(types)('give the same bits on every ISA for %s, any number of rows', (type) => {
    for (const rows of [1, 2, 3, 4, 5, 7, 8, 9, 16, 19]) {
      const product = randomProduct(type, 35, 256, rows, rows);
      const expected = multiply('scalar', product);
      expect(expected.every(Number.isFinite)).toBe(true);
      for (const isa of addon().kernels()) expect(multiply(isa, product)).toEqual(expected);
    }
  });

  it.each(['F16', 'BF16'] as const)('multiply scales of %s as the same in float32, bit for bit', (scale) => {
    for (const type of ['MLX4_G32', 'MLX4_G64', 'MLX6_G128', 'MLX8_G64'] as const) {
      for (const rows of [1, 6, 16]) {
        const narrow = randomProduct(`${type}_${scale}`, 35, 384, rows, rows);
        const wide = { ...narrow, type, weights: withWideScales(narrow, scale) };
        for (const isa of addon().kernels()) expect(multiply(isa, narrow)).toEqual(multiply(isa, wide));
      }
    }
  });

  it.each(types)('give a row of %s the same bits alone and among others', (type) => {
    const product = randomProduct(type, 48, 256, 13, 3);
    const together = multiply('', product);
    for (let row = 0; row < 13; row++) {
      const x = product.x.slice(row * 256, (row + 1) * 256);
      expect(multiply('', { ...product, x })).toEqual(together.slice(row * 48, (row + 1) * 48));
    }
  });

  it('keep the largest codes exact: no partial sum saturates', () => {
    // Q8_0 codes of -128 and 127 against inputs whose codes are all ±127.
    const inputs = 64;
    const weights = new Uint8Array(rowBytes('Q8_0', inputs) * 16);
    for (let block = 0; block < weights.length / 34; block++) {
      new DataView(weights.buffer).setUint16(block * 34, 0x3c00, true);
      weights.fill(block % 2 === 0 ? 0x80 : 0x7f, block * 34 + 2, block * 34 + 34);
    }
    const x = Float32Array.from({ length: inputs }, (_, k) => (k < 32 ? -127 : 127));
    const exact = (128 * 127 + 127 * 127) * 32;
    for (const isa of addon().kernels()) {
      const out = multiply(isa, { type: 'Q8_0', weights, outputs: 16, inputs, x });
      expect(out).toEqual(new Float32Array(16).fill(exact));
    }
  });

  it('carry NaN and infinity on instead of hiding them', () => {
    for (const type of ['Q8_0', 'Q4_K', 'F16'] as const) {
      for (const poison of [Number.NaN, Number.POSITIVE_INFINITY]) {
        const product = randomProduct(type, 16, 256, 2, 5);
        product.x[300] = poison;
        for (const isa of addon().kernels()) {
          const out = multiply(isa, product);
          expect(out.subarray(0, 16).every(Number.isFinite)).toBe(true);
          expect(out.subarray(16).some(Number.isFinite)).toBe(false);
        }
      }
    }
  });
});
