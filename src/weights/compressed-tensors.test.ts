// What is refused of models of compressed-tensors, and how they lie in memory; that their weights are right is the matter of
// test/golden/quantized-models.test.ts.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { type SafetensorsWriterTensor, writeSafetensors } from '../../test/support/safetensors-writer.ts';
import { ModelFileError } from './model-file-error.ts';
import { openModelFiles } from './open-model.ts';
import { readFloats } from './weight-source.ts';

const folder = mkdtempSync(join(tmpdir(), 'chairlift-compressed-'));
afterAll(() => rmSync(folder, { recursive: true }));

const int4 = { num_bits: 4, type: 'int', symmetric: true, strategy: 'group', group_size: 64 };
const int8 = { num_bits: 8, type: 'int', symmetric: true, strategy: 'channel' };
const fp4 = { num_bits: 4, type: 'float', symmetric: true, strategy: 'tensor_group', group_size: 16 };

function open(tensors: readonly SafetensorsWriterTensor[], settings: object, ...weights: readonly object[]) {
  const groups = weights.map((one, index) => [`group_${index}`, { targets: ['Linear'], weights: one }]);
  const quantization = {
    quant_method: 'compressed-tensors',
    format: 'mixed-precision',
    config_groups: Object.fromEntries(groups),
    ...settings,
  };
  writeFileSync(join(folder, 'model.safetensors'), writeSafetensors(tensors));
  writeFileSync(join(folder, 'config.json'), JSON.stringify({ quantization_config: quantization }));
  return openModelFiles(folder).weights;
}

const valueBytes: Readonly<Record<string, number>> = {
  I64: 8,
  I32: 4,
  F32: 4,
  BF16: 2,
  I8: 1,
  U8: 1,
  F8_E4M3: 1,
};

function part(name: string, dtype: string, shape: readonly number[], fill: readonly number[] = [0]) {
  const length = shape.reduce((product, size) => product * size, valueBytes[dtype] ?? 0);
  return { name, dtype, shape, bytes: Uint8Array.from({ length }, (_, i) => fill[i % fill.length] ?? 0) };
}

const ONE = [0x80, 0x3f];
const ONE_F32 = [0, 0, 0x80, 0x3f];
const [OUTPUTS, INPUTS] = [32, 128];

function shapeOf(columns = INPUTS) {
  return part('x.weight_shape', 'I64', [2], [OUTPUTS, 0, 0, 0, 0, 0, 0, 0, columns, 0, 0, 0, 0, 0, 0, 0]);
}

function packed(groups: number, bits = 4) {
  return [
    part('x.weight_packed', 'I32', [OUTPUTS, (INPUTS * bits) / 32], [0x88]),
    part('x.weight_scale', 'BF16', [OUTPUTS, groups], ONE),
    shapeOf(),
  ];
}

const bytes = [
  part('x.weight', 'I8', [OUTPUTS, INPUTS]),
  part('x.weight_scale', 'F32', [OUTPUTS, 1], ONE_F32),
];
const nvfp4 = [
  part('x.weight_packed', 'U8', [OUTPUTS, INPUTS / 2]),
  part('x.weight_scale', 'F8_E4M3', [OUTPUTS, INPUTS / 16], [0x38]),
  part('x.weight_global_scale', 'F32', [1], ONE_F32),
];
const mxfp4 = [
  part('x.weight_packed', 'U8', [OUTPUTS, INPUTS / 2]),
  part('x.weight_scale', 'U8', [OUTPUTS, INPUTS / 32], [127]),
];
const scattered = Array.from({ length: INPUTS }, (_, input) => [input & 1, 0, 0, 0]).flat();

describe('a model of compressed-tensors', () => {
  it.each<[string, readonly SafetensorsWriterTensor[], string]>([
    ['4 bits in groups of 64', packed(2), 'MLX4_G64_BF16'],
    [
      '4 bits with zeros',
      [...packed(2), part('x.weight_zero_point', 'I32', [OUTPUTS / 8, 2], [0x88])],
      'MLX4_G64',
    ],
    ['bytes with a scale a row', bytes, 'MLX8_G128'],
    [
      'bytes with one scale',
      [bytes[0] as SafetensorsWriterTensor, part('x.weight_scale', 'F32', [1], ONE_F32)],
      'MLX8_G128',
    ],
    [
      'an index that was never filled',
      [...packed(2), part('x.weight_g_idx', 'I32', [INPUTS], [255])],
      'MLX4_G64_BF16',
    ],
    ['act-order', [...packed(2), part('x.weight_g_idx', 'I32', [INPUTS], scattered)], 'BF16'],
    ['NVFP4', nvfp4, 'BF16'],
    ['MXFP4', mxfp4, 'MXFP4'],
  ])('lies in memory by its format: %s', (_, tensors, type) => {
    const weights = open(tensors, {}, int4, int8, fp4);
    expect([...weights.tensors.values()]).toMatchObject([
      { name: 'x.weight', type, shape: [OUTPUTS, INPUTS] },
    ]);
    expect(readFloats(weights, 'x.weight').every((value) => value === 0)).toBe(true);
    weights.close();
  });

  it.each<[string, readonly SafetensorsWriterTensor[], object, readonly object[], RegExp]>([
    ['sparse weights', packed(2), { format: 'marlin-24' }, [int4], /format: "marlin-24" is not supported/],
    [
      'sparse weights beside',
      packed(2),
      { sparsity_config: { format: 'sparse-24-bitmask' } },
      [int4],
      /sparsity_config\.format: "sparse-24-bitmask" is not supported/,
    ],
    [
      'rotated activations',
      packed(2),
      { transform_config: { config_groups: { u: {} } } },
      [int4],
      /transform_config: asks for rotated activations/,
    ],
    [
      'no groups of settings',
      packed(2),
      { config_groups: {} },
      [],
      /config_groups: names no group of weights/,
    ],
    [
      '7 bits',
      packed(2),
      {},
      [{ ...int4, num_bits: 7 }],
      /group_0\.weights: 7 bits of the type "int" are not/,
    ],
    ['6 bits of floats', packed(2), {}, [{ ...fp4, num_bits: 6 }], /6 bits of the type "float" are not/],
    ['groups of no size', packed(2), {}, [{ ...int4, group_size: 0 }], /group_size: 0 is no size of groups/],
    [
      'another width',
      packed(2, 8),
      {},
      [int4],
      /x\.weight_packed: has the shape \[32, 32\], not one of 32 rows/,
    ],
    [
      'other groups',
      packed(4),
      {},
      [int4],
      /x\.weight_scale: has 4 scales for rows of 128 values, which no group/,
    ],
    ['no zeros', packed(2), {}, [{ ...int4, symmetric: false }], /x\.weight_zero_point: is missing beside/],
    ['no shape', packed(2).slice(0, 2), {}, [int4], /x\.weight_shape: is missing beside x\.weight_packed/],
    ['no scales', bytes.slice(0, 1), {}, [int8], /x\.weight_scale: is missing beside x\.weight\b/],
    [
      'NVFP4 without a scale of the whole',
      nvfp4.slice(0, 2),
      {},
      [fp4],
      /x\.weight_global_scale: is missing beside/,
    ],
    [
      'a group that is not there',
      [...packed(2), part('x.weight_g_idx', 'I32', [INPUTS], [2, 0, 0, 0])],
      {},
      [int4],
      /x\.weight_g_idx: names group 2 of 2/,
    ],
  ])('is refused with %s', (_, tensors, settings, weights, message) => {
    expect(() => open(tensors, settings, ...weights)).toThrow(ModelFileError);
    expect(() => open(tensors, settings, ...weights)).toThrow(message);
  });

  it('is refused where NVFP4 has a scale that is no number, or divides by nothing', () => {
    const [codes, scales, whole] = nvfp4 as [
      SafetensorsWriterTensor,
      SafetensorsWriterTensor,
      SafetensorsWriterTensor,
    ];
    const spoiled = open([codes, part(scales.name, scales.dtype, scales.shape, [0x7f]), whole], {}, fp4);
    expect(() => readFloats(spoiled, 'x.weight')).toThrow(/x\.weight_scale: holds a scale that is no number/);
    spoiled.close();
    const endless = open([codes, scales, part(whole.name, 'F32', [1])], {}, fp4);
    expect(() => readFloats(endless, 'x.weight')).toThrow(
      /x\.weight_global_scale: makes weights that are too large/,
    );
    endless.close();
  });
});
