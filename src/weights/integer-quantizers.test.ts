// What is refused of models quantized to integers, and how they lie in memory; that their weights are right is the matter of
// test/golden/quantized-models.test.ts.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import {
  float32Bytes,
  type SafetensorsWriterTensor,
  writeSafetensors,
} from '../../test/support/safetensors-writer.ts';
import { ModelFileError } from './model-file-error.ts';
import { openModelFiles } from './open-model.ts';
import { readFloats } from './weight-source.ts';

const folder = mkdtempSync(join(tmpdir(), 'chairlift-integers-'));
afterAll(() => rmSync(folder, { recursive: true }));

function open(tensors: readonly SafetensorsWriterTensor[], settings: object) {
  writeFileSync(join(folder, 'model.safetensors'), writeSafetensors(tensors));
  writeFileSync(join(folder, 'config.json'), JSON.stringify({ quantization_config: settings }));
  return openModelFiles(folder).weights;
}

function words(name: string, shape: readonly number[], value: (index: number) => number = () => 0) {
  const count = shape.reduce((product, size) => product * size, 1);
  const bytes = new Uint8Array(Int32Array.from({ length: count }, (_, index) => value(index)).buffer);
  return { name, dtype: 'I32', shape, bytes };
}

function floats(name: string, shape: readonly number[], value = 1) {
  const count = shape.reduce((product, size) => product * size, 1);
  return { name, dtype: 'F32', shape, bytes: float32Bytes(Array(count).fill(value)) };
}

function halves(name: string, shape: readonly number[], bits: number) {
  const count = shape.reduce((product, size) => product * size, 1);
  return {
    name,
    dtype: 'F16',
    shape,
    bytes: new Uint8Array(Uint16Array.from({ length: count }, () => bits).buffer),
  };
}

const OUTPUTS = 32;
const INPUTS = 128;

/** A module of GPTQ whose groups have `size` inputs, or lie where `indexes` says. */
function gptq(size: number, bits = 4, indexes?: (input: number) => number) {
  const groups = Math.ceil(INPUTS / size);
  return [
    words('x.qweight', [(INPUTS * bits) / 32, OUTPUTS]),
    words('x.qzeros', [groups, (OUTPUTS * bits) / 32]),
    halves('x.scales', [groups, OUTPUTS], 0x3c00),
    ...(indexes === undefined ? [] : [words('x.g_idx', [INPUTS], indexes)]),
  ];
}

const gptqSettings = { quant_method: 'gptq', bits: 4, group_size: 128, desc_act: false, sym: true };

describe('a folder whose config.json says nothing of its quantization', () => {
  const older = mkdtempSync(join(tmpdir(), 'chairlift-older-'));
  afterAll(() => rmSync(older, { recursive: true }));

  function openOlder(tensors: readonly SafetensorsWriterTensor[], name: string, settings: object) {
    rmSync(older, { recursive: true });
    mkdirSync(older);
    writeFileSync(join(older, 'model.safetensors'), writeSafetensors(tensors));
    writeFileSync(join(older, 'config.json'), '{}');
    writeFileSync(join(older, name), JSON.stringify(settings));
    return openModelFiles(older).weights;
  }

  const autoGptq = { bits: 4, group_size: 128, desc_act: false, sym: true, damp_percent: 0.01 };
  const autoAwq = { zero_point: true, q_group_size: 64, w_bit: 4, version: 'GEMM' };

  it.each([
    ['quantize_config.json', gptq(128), autoGptq, { quant_method: 'gptq', ...autoGptq }],
    [
      'quant_config.json',
      awq(64),
      autoAwq,
      { quant_method: 'awq', bits: 4, group_size: 64, zero_point: true },
    ],
  ])('is read by %s', (name, tensors, settings, inConfig) => {
    const expected = open(tensors, inConfig);
    const weights = openOlder(tensors, name, settings);
    expect(weights.tensors.get('x.weight')?.type).toBe(expected.tensors.get('x.weight')?.type);
    expect([...readFloats(weights, 'x.weight')]).toEqual([...readFloats(expected, 'x.weight')]);
  });

  it('is refused by the file that says so', () => {
    expect(() => openOlder(gptq(128), 'quantize_config.json', { ...autoGptq, bits: 5 })).toThrow(
      /quantize_config\.json.*bits: 5 is not supported/s,
    );
  });
});

describe('a model quantized by GPTQ', () => {
  it.each<[string, readonly SafetensorsWriterTensor[], object, string]>([
    ['groups of 128', gptq(128), {}, 'MLX4_G128'],
    ['groups of 64', gptq(64), { group_size: 64 }, 'MLX4_G64'],
    ['one group for all inputs', gptq(128), { group_size: -1 }, 'MLX4_G128'],
    ['groups in order', gptq(32, 4, (input) => input >> 5), { group_size: 32, desc_act: true }, 'MLX4_G32'],
    ['groups in another order', gptq(32, 4, (input) => 3 - (input >> 5)), { group_size: 32 }, 'MLX4_G32'],
    ['scattered groups', gptq(32, 4, (input) => input & 3), { group_size: 32, desc_act: true }, 'F16'],
    ['groups of 16', gptq(16), { group_size: 16 }, 'F16'],
    ['3 bits', gptq(64, 3), { bits: 3, group_size: 64 }, 'MLX3_G64'],
    ['a module with bits of its own', gptq(128, 8), { dynamic: { '+:x': { bits: 8 } } }, 'MLX8_G128'],
  ])('lies in memory by its groups: %s', (_, tensors, settings, type) => {
    const weights = open(tensors, { ...gptqSettings, ...settings });
    expect([...weights.tensors.values()]).toMatchObject([
      { name: 'x.weight', type, shape: [OUTPUTS, INPUTS] },
    ]);
    expect(readFloats(weights, 'x.weight').every((value) => value === -1)).toBe(true);
    weights.close();
  });

  it.each<[string, number, number, object]>([
    ['2 bits', 2, 0x55555555, {}],
    ['4 bits', 4, 0x77777777, {}],
    ['8 bits', 8, 0x7f7f7f7f, {}],
    ['4 bits of version 2', 4, 0x88888888, { checkpoint_format: 'gptq_v2' }],
  ])('has biases as narrow as its scales where all zeros are the middle: %s', (_, bits, zero, settings) => {
    const tensors = (last: number) => [
      words('x.qweight', [(INPUTS * bits) / 32, OUTPUTS]),
      words('x.qzeros', [2, bits], (index) => (index === 2 * bits - 1 ? last : zero)),
      halves('x.scales', [2, OUTPUTS], 0x3c00),
    ];
    const own = { ...gptqSettings, bits, group_size: 64, ...settings };
    const symmetric = open(tensors(zero), own);
    expect(symmetric.tensors.get('x.weight')?.type).toBe(`MLX${bits}_G64_F16`);
    expect(readFloats(symmetric, 'x.weight').every((value) => value === -(2 ** (bits - 1)))).toBe(true);
    symmetric.close();
    // The setting alone is not trusted.
    const other = open(tensors(0), own);
    expect(other.tensors.get('x.weight')?.type).toBe(`MLX${bits}_G64`);
    other.close();
  });

  it.each<[string, readonly SafetensorsWriterTensor[], object, RegExp]>([
    ['5 bits', gptq(128), { bits: 5 }, /quantization_config\.bits: 5 is not supported/],
    ['no bits', gptq(128), { bits: undefined }, /quantization_config\.bits: no value is not supported/],
    ['Marlin', gptq(128), { checkpoint_format: 'marlin' }, /checkpoint_format: "marlin" is not supported/],
    ['Marlin of old', gptq(128), { is_marlin_format: true }, /is_marlin_format: true is not supported/],
    ['planes', gptq(128), { checkpoint_format: undefined, format: 'gptq_p' }, /"gptq_p" is not supported/],
    ['no groups', gptq(128), { group_size: 0 }, /group_size: 0 is no size of groups/],
    [
      'other groups',
      gptq(64),
      {},
      /x\.scales: has the shape \[2, 32\] where a weight in groups of 128 needs \[1/,
    ],
    [
      'other bits',
      gptq(128, 8),
      {},
      /x\.qzeros: has the shape \[1, 8\] where a weight of 4 bits needs \[1, 4\]/,
    ],
    [
      'no zeros',
      gptq(128).filter(({ name }) => name !== 'x.qzeros'),
      {},
      /x\.qzeros: is missing beside x\.qweight/,
    ],
    ['a group that is not there', gptq(128, 4, () => 1), {}, /x\.g_idx: names group 1 of 1/],
    [
      'words of bytes',
      [{ ...words('x.qweight', [16, 32]), dtype: 'U32' }, ...gptq(128).slice(1)],
      {},
      /dtype U32/,
    ],
    [
      'a vector of codes',
      [words('x.qweight', [512]), ...gptq(128).slice(1)],
      {},
      /x\.qweight: has the shape \[512\]/,
    ],
  ])('is refused with %s', (_, tensors, settings, message) => {
    const all = { ...gptqSettings, ...settings };
    expect(() => open(tensors, all)).toThrow(ModelFileError);
    expect(() => open(tensors, all)).toThrow(message);
  });

  it('is refused where a weight is too large for its float', () => {
    const tensors = gptq(32, 4, (input) => input & 3);
    const large = tensors.map((part) =>
      part.name === 'x.scales' ? halves('x.scales', [4, OUTPUTS], 0x7c00) : part,
    );
    const weights = open(large, { ...gptqSettings, group_size: 32 });
    expect(() => readFloats(weights, 'x.weight')).toThrow(/x\.scales: makes weights too large for F16/);
    weights.close();
  });
});

function awq(size: number) {
  const groups = INPUTS / size;
  return [
    words('x.qweight', [INPUTS, OUTPUTS / 8]),
    words('x.qzeros', [groups, OUTPUTS / 8], () => 0x11111111),
    floats('x.scales', [groups, OUTPUTS]),
  ];
}

const awqSettings = { quant_method: 'awq', bits: 4, group_size: 64, version: 'GEMM', zero_point: true };

describe('a model quantized by AWQ', () => {
  it('lies in memory by its groups', () => {
    const weights = open(awq(64), awqSettings);
    expect([...weights.tensors.values()]).toMatchObject([
      { name: 'x.weight', type: 'MLX4_G64', shape: [OUTPUTS, INPUTS] },
    ]);
    expect(readFloats(weights, 'x.weight').every((value) => value === -1)).toBe(true);
    weights.close();
  });

  it.each<[string, readonly SafetensorsWriterTensor[], object, RegExp]>([
    ['8 bits', awq(64), { bits: 8 }, /quantization_config\.bits: 8 is not supported/],
    ['packing for GEMV', awq(64), { version: 'gemv' }, /version: "gemv" is not supported, but "gemm" is/],
    [
      'packing for GEMV by GPTQModel',
      awq(64),
      { version: undefined, checkpoint_format: 'gemv' },
      /"gemv" is not/,
    ],
    ['no zeros', awq(64), { zero_point: false }, /zero_point: false is not supported/],
    ['groups of no size', awq(64), { group_size: 'all' }, /group_size: "all" is no size of groups/],
    [
      'other groups',
      awq(32),
      {},
      /x\.scales: has the shape \[4, 32\] where a weight in groups of 64 needs \[2, 32\]/,
    ],
    [
      'broken rows',
      [words('x.qweight', [12, 4]), ...awq(64).slice(1)],
      {},
      /x\.qweight: has the shape \[12, 4\]/,
    ],
  ])('is refused with %s', (_, tensors, settings, message) => {
    const all = { ...awqSettings, ...settings };
    expect(() => open(tensors, all)).toThrow(ModelFileError);
    expect(() => open(tensors, all)).toThrow(message);
  });
});
