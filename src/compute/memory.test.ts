// What weights take in memory, by their type, and what KV blocks take.

import { describe, expect, it } from 'vitest';
import { addon, hasAddon } from '../../test/support/native.ts';
import { seeingModel } from '../../test/support/seeing-model.ts';
import { leavesOf } from '../model/leaves.ts';
import type { TensorType } from '../weights/tensor-type.ts';
import { fileMatrixBytes, sizesOf, weightBytes } from './memory.ts';

const [OUTPUTS, INPUTS] = [1024, 4096];

/**
 * Codes of up to four bits take four, others eight. MLX's own are those of the file for 4 and 8 bits; finer groups of 32
 * cost a bit, and scales in float32 as much again as those of 16 bits.
 */
const bits = {
  Q4_0: 4.5,
  Q8_0: 8.5,
  MLX4_G32_F16: 5,
  MLX4_G64_F16: 4.5,
  MLX4_G128_F16: 4.25,
  MLX4_G32_BF16: 5,
  MLX4_G64_BF16: 4.5,
  MLX4_G128_BF16: 4.25,
  MLX4_G32: 6,
  MLX4_G64: 5,
  MLX4_G128: 4.5,
  MLX2_G64_BF16: 4.5,
  MLX3_G64_BF16: 4.5,
  MLX5_G64_BF16: 8.5,
  MLX6_G64_BF16: 8.5,
  MLX8_G32_BF16: 9,
  MLX8_G64_BF16: 8.5,
  MLX8_G64_F16: 8.5,
  MLX8_G128_BF16: 8.25,
  MLX8_G64: 9,
} as const satisfies Partial<Record<TensorType, number>>;

const bitsWith = (backend: 'cpu' | 'webgpu', type: string): number =>
  (8 * sizesOf(backend).matrixBytes(type as TensorType, OUTPUTS, INPUTS)) / (OUTPUTS * INPUTS);

describe('weights in memory', () => {
  it.skipIf(!hasAddon).each(Object.entries(bits))(
    'of %s take %d bits each on the cpu backend (skipped where the addon is not built)',
    (type, expected) => expect(bitsWith('cpu', type)).toBe(expected),
  );

  it.each(Object.entries(bits))('of %s take %d bits each on the webgpu backend', (type, expected) =>
    expect(bitsWith('webgpu', type)).toBe(expected),
  );
});

it('weights of a model that sees are those of its tower, too', () => {
  const { spec, weights } = seeingModel();
  const { vision, ...blind } = spec;
  const tower = [
    ...leavesOf(vision, 'linear').map(({ weight, columns }) => weight.rows * columns),
    ...leavesOf(vision, 'table').map(({ rows, columns }) => rows * columns),
  ];
  const added = weightBytes(spec, weights, fileMatrixBytes) - weightBytes(blind, weights, fileMatrixBytes);
  expect(added).toBe(4 * tower.reduce((sum, values) => sum + values, 0));
});

it.skipIf(!hasAddon)(
  'a KV cache stores values that lie in keys once (skipped where the addon is not built)',
  () => {
    const keys = { headCount: 1, headSize: 576 };
    const caches = (valuesInKeys?: number) =>
      Array.from({ length: 60 }, () => (valuesInKeys === undefined ? keys : { ...keys, valuesInKeys }));
    const inKeys = addon().kvBlockBytes('f16', caches(512), 0);
    expect(inKeys).toBe(60 * 32 * 576 * 2);
    expect(addon().kvBlockBytes('f16', caches(), 0)).toBe(2 * inKeys);
  },
);
