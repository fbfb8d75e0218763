// Packed weights are the file's own: every row, read back, has the values that its format defines.

import { describe, expect, it } from 'vitest';
import { addon, hasAddon } from '../../../test/support/native.ts';
import {
  type BlockType,
  randomBlocks,
  scaleFields,
  seededRandom,
  writeSpread,
} from '../../../test/support/random-blocks.ts';
import { dequantize } from '../../weights/quants/dequantize.ts';
import { type TensorType, tensorLayouts } from '../../weights/tensor-type.ts';

const types = Object.keys(tensorLayouts) as TensorType[];
const floatTypes: readonly TensorType[] = ['F32', 'F16', 'BF16'];

/** Upper bits of infinities and NaN; powers of two, and floats as wide as they are, are refused beyond 2^100. */
const notFinite = {
  F16: [0x7c00, 0xfc00, 0x7e01],
  spread: [0x7c00, 0xfc00, 0x7e01],
  F32: [0x7f80, 0xff80, 0x7fc1],
  BF16: [0x7f80, 0xff80, 0x7fc1, 0x7200, 0xf200],
  E8M0: [228, 254, 255],
  E4M3: [127, 255],
} as const;

/** Row lengths that leave readers of several groups, and stretches of floats, a remainder. */
function inputSizes(type: TensorType): number[] {
  const { blockSize } = tensorLayouts[type];
  return floatTypes.includes(type)
    ? [1, 31, 255, 256, 515]
    : [1, 3, 8, 11].map((blocks) => blocks * blockSize);
}

function largestDifference(actual: Float32Array, expected: Float32Array): number {
  return expected.reduce(
    (most, value, index) => Math.max(most, Math.abs((actual[index] as number) - value)),
    0,
  );
}

describe.skipIf(!hasAddon)('packing (skipped where the addon is not built)', () => {
  it.each(types)('keeps the values of %s, for any number of rows and inputs', (type) => {
    const random = seededRandom(types.indexOf(type) + 1);
    for (const inputs of inputSizes(type)) {
      for (const outputs of [1, 15, 16, 17, 35]) {
        const weights = randomBlocks(type, (outputs * inputs) / tensorLayouts[type].blockSize, random, 1);
        const expected = new Float32Array(outputs * inputs);
        dequantize(type, weights, expected);
        const actual = new Float32Array(outputs * inputs).fill(Number.NaN);
        addon().unpack(type, weights, outputs, inputs, actual);
        // Both round to float32, not always after the same operation; a wrong code is off by 0.01 and more.
        expect(largestDifference(actual, expected)).toBeLessThan(floatTypes.includes(type) ? 1e-30 : 2e-6);
      }
    }
  });

  // Instruction sets would not agree on what such a weight gives.
  it.each(Object.keys(scaleFields) as BlockType[])('refuses %s with a scale that is not finite', (type) => {
    const { blockSize, blockBytes } = tensorLayouts[type];
    const blocks = 35;
    const unpack = (weights: Uint8Array) =>
      addon().unpack(type, weights, blocks, blockSize, new Float32Array(blocks * blockSize));
    for (const field of scaleFields[type]) {
      for (const block of [0, 17, blocks - 1]) {
        for (const upperBits of notFinite[field.type]) {
          const weights = randomBlocks(type, blocks, seededRandom(block + 1));
          expect(() => unpack(weights)).not.toThrow();
          const at = block * blockBytes + field.at + (field.type === 'F32' ? 2 : 0);
          const view = new DataView(weights.buffer);
          if (field.type === 'E8M0' || field.type === 'E4M3') view.setUint8(at, upperBits);
          else if (field.type === 'spread') writeSpread(view, at, upperBits);
          else view.setUint16(at, upperBits, true);
          expect(() => unpack(weights)).toThrow('a scale or minimum is not finite');
        }
      }
    }
  });
});
