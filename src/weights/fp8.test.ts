import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
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
import { readFloatRows, readFloats } from './weight-source.ts';

interface ScaleVector {
  readonly shape: readonly number[];
  readonly dtype: string;
  readonly scale: string;
  readonly values: string;
}

// Three rows of 128 floats of eight bits, all that there are among them, and what numpy and ml_dtypes make of them in
// float32 with scales for blocks of 2 x 64, for rows, and for the tensor. In base64.
const vectors: { readonly weight: string } & Readonly<Record<'blocks' | 'rows' | 'tensor', ScaleVector>> =
  JSON.parse(readFileSync(new URL('./fp8.vectors.json', import.meta.url), 'utf8'));

const folder = mkdtempSync(join(tmpdir(), 'chairlift-fp8-'));
afterAll(() => rmSync(folder, { recursive: true }));

function open(tensors: readonly SafetensorsWriterTensor[], settings: object) {
  writeFileSync(join(folder, 'model.safetensors'), writeSafetensors(tensors));
  writeFileSync(join(folder, 'config.json'), JSON.stringify({ quantization_config: settings }));
  return openModelFiles(folder).weights;
}

const weight = {
  name: 'x.weight',
  dtype: 'F8_E4M3',
  shape: [3, 128],
  bytes: Buffer.from(vectors.weight, 'base64'),
};

function scale(kind: 'blocks' | 'rows' | 'tensor', name: string): SafetensorsWriterTensor {
  const { shape, dtype, scale: base64 } = vectors[kind];
  return { name, dtype, shape, bytes: Buffer.from(base64, 'base64') };
}

function expectedValues(kind: 'blocks' | 'rows' | 'tensor'): Float32Array {
  return new Float32Array(new Uint8Array(Buffer.from(vectors[kind].values, 'base64')).buffer);
}

const inBlocks = { quant_method: 'fp8', activation_scheme: 'dynamic', weight_block_size: [2, 64] };
const compressed = (weights: object) => ({
  quant_method: 'compressed-tensors',
  config_groups: { group_0: { weights } },
});
const float8 = { num_bits: 8, type: 'float' };

describe('a model in FP8', () => {
  it.each<[string, 'blocks' | 'rows' | 'tensor', string, object, string]>([
    ['blocks', 'blocks', 'x.weight_scale_inv', inBlocks, 'F8_G32'],
    ['rows', 'rows', 'x.weight_scale', { quant_method: 'fbgemm_fp8' }, 'F8_G128'],
    ['a tensor', 'tensor', 'x.weight_scale', { quant_method: 'fp8', weight_block_size: null }, 'F8_G128'],
    ['rows by compressed-tensors', 'rows', 'x.weight_scale', compressed(float8), 'F8_G128'],
    [
      'blocks by compressed-tensors',
      'blocks',
      'x.weight_scale',
      compressed({ ...float8, block_structure: [2, 64] }),
      'F8_G32',
    ],
    [
      'a tensor by ModelOpt',
      'tensor',
      'x.weight_scale',
      { quant_method: 'modelopt', quant_algo: 'FP8' },
      'F8_G128',
    ],
  ])('has the weights of its definition, with scales of %s', (_, kind, name, settings, type) => {
    const norm = { name: 'norm', dtype: 'F32', shape: [1], bytes: float32Bytes([3]) };
    const weights = open([norm, weight, scale(kind, name)], settings);
    expect([...weights.tensors.keys()].sort()).toEqual(['norm', 'x.weight']);
    expect(weights.tensors.get('x.weight')).toMatchObject({ type, shape: [3, 128] });
    const expected = expectedValues(kind);
    const withoutSign = (value: number) => value + 0;
    expect(readFloats(weights, 'x.weight').map(withoutSign)).toEqual(expected);
    for (const [first, count] of [
      [1, 1],
      [1, 2],
      [2, 1],
    ] as const) {
      const rows = readFloatRows(weights, 'x.weight', first, count).map(withoutSign);
      expect(rows).toEqual(expected.slice(first * 128, (first + count) * 128));
    }
    weights.close();
  });

  it('has them in a stack of matrices, whose blocks begin anew with each', () => {
    const stacked = { ...weight, shape: [2, 3, 128], bytes: Buffer.concat([weight.bytes, weight.bytes]) };
    const once = scale('blocks', 'x.weight_scale_inv');
    const scales = { ...once, shape: [2, ...once.shape], bytes: Buffer.concat([once.bytes, once.bytes]) };
    const weights = open([stacked, scales], inBlocks);
    const expected = expectedValues('blocks');
    const values = readFloats(weights, 'x.weight').map((value) => value + 0);
    expect(values.slice(0, expected.length)).toEqual(expected);
    expect(values.slice(expected.length)).toEqual(expected);
    weights.close();
  });

  const scales = scale('blocks', 'x.weight_scale_inv');
  it.each<[string, readonly SafetensorsWriterTensor[], object, RegExp]>([
    [
      'scales that do not fit',
      [weight, scales],
      { ...inBlocks, weight_block_size: [128, 128] },
      /x\.weight_scale_inv: has the shape \[2, 2\] where a weight with a scale for 128 x 128 values needs \[1, 1\]/,
    ],
    [
      'blocks of which nothing is said',
      [weight, scales],
      { quant_method: 'fp8' },
      /neither one scale nor one for/,
    ],
    [
      'blocks of no size',
      [weight, scales],
      { ...inBlocks, weight_block_size: [0, 128] },
      /weight_block_size: \[0,128\] is not a pair of sizes/,
    ],
    [
      'scales that are no floats',
      [weight, { ...scales, dtype: 'U8', shape: [16] }],
      inBlocks,
      /x\.weight_scale_inv: has the dtype U8, not a float/,
    ],
    [
      'rows of broken groups',
      [{ ...weight, shape: [16, 24] }, scale('tensor', 'x.weight_scale')],
      { quant_method: 'fp8' },
      /its rows of 24 values are not whole groups of 32/,
    ],
    ['a vector', [{ ...weight, shape: [384] }, scales], inBlocks, /x\.weight: has no rows/],
    [
      'integers of a width that is not known, by compressed-tensors',
      [weight],
      compressed({ num_bits: 7, type: 'int' }),
      /config_groups\.group_0\.weights: 7 bits of the type "int" are not supported/,
    ],
    [
      'no groups by compressed-tensors',
      [weight],
      { quant_method: 'compressed-tensors' },
      /config_groups: names no group of weights/,
    ],
    [
      'FP4 by ModelOpt',
      [weight],
      { quant_method: 'modelopt', quant_algo: 'NVFP4' },
      /quant_algo: "NVFP4" is not/,
    ],
  ])('is refused with %s', (_, tensors, settings, message) => {
    expect(() => open(tensors, settings)).toThrow(ModelFileError);
    expect(() => open(tensors, settings)).toThrow(message);
  });

  it('is refused when a weight without scales, or one that is no number, is read', () => {
    const bare = open([weight], inBlocks);
    expect(() => readFloats(bare, 'x.weight')).toThrow(
      /x\.weight: has the dtype F8_E4M3, which cannot be used/,
    );
    bare.close();
    const bytes = Buffer.from(weight.bytes);
    bytes[300] = 0xff;
    const spoiled = open([{ ...weight, bytes }, scales], inBlocks);
    expect(() => readFloats(spoiled, 'x.weight')).toThrow(/x\.weight: holds a weight that is no number/);
    spoiled.close();
  });
});
