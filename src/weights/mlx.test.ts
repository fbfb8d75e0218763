import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import {
  float32Bytes,
  type SafetensorsWriterTensor,
  writeSafetensors,
} from '../../test/support/safetensors-writer.ts';
import { hasTestdata, testdata } from '../../test/support/testdata.ts';
import { mlxWeights } from './mlx.ts';
import { ModelFileError } from './model-file-error.ts';
import { openModelFiles } from './open-model.ts';
import { openSafetensors } from './safetensors.ts';
import { readFloatRows, readFloats, rowsOf } from './weight-source.ts';

// Random matrices quantized and dequantized by the Python package mlx 0.32, in base64.
interface MlxVector {
  readonly dtype: string;
  readonly rows: number;
  readonly columns: number;
  readonly weight: string;
  readonly scales: string;
  readonly biases: string;
  readonly values: string;
}

interface Vectors {
  readonly mlx: Readonly<Record<string, MlxVector>>;
  readonly mlxMxfp4: MlxVector;
  readonly mlxNvfp4: MlxVector;
  readonly mlxMxfp8: MlxVector;
}

const {
  mlx: vectors,
  mlxMxfp4: mxfp4,
  mlxNvfp4: nvfp4,
  mlxMxfp8: mxfp8,
}: Vectors = JSON.parse(readFileSync(new URL('./quants/dequantize.vectors.json', import.meta.url), 'utf8'));

/** Modes of floats, and how they are stored. */
const floatModes = [
  { mode: 'mxfp4', bits: 4, group: 32, type: 'MXFP4', vector: mxfp4 },
  { mode: 'nvfp4', bits: 4, group: 16, type: 'NVFP4', vector: nvfp4 },
  { mode: 'mxfp8', bits: 8, group: 32, type: 'F8_G32', vector: mxfp8 },
] as const;

function floatModule({ bits, group, vector }: (typeof floatModes)[number]): SafetensorsWriterTensor[] {
  const { rows, columns, weight, scales } = vector;
  const part = (name: string, dtype: string, size: number, base64: string) => ({
    name: `x.${name}`,
    dtype,
    shape: [rows, size],
    bytes: Buffer.from(base64, 'base64'),
  });
  return [
    part('weight', 'U32', (columns * bits) / 32, weight),
    part('scales', 'U8', columns / group, scales),
  ];
}

function floatsOf(base64: string): Float32Array {
  return new Float32Array(new Uint8Array(Buffer.from(base64, 'base64')).buffer);
}

const folder = mkdtempSync(join(tmpdir(), 'chairlift-mlx-'));
afterAll(() => rmSync(folder, { recursive: true }));

function open(tensors: readonly SafetensorsWriterTensor[], quantization: object) {
  const path = join(folder, 'model.safetensors');
  writeFileSync(path, writeSafetensors(tensors));
  return mlxWeights(openSafetensors(path, [path]), { quantization }, 'config.json');
}

function moduleTensors(name: string, type: string): readonly SafetensorsWriterTensor[] {
  const vector = vectors[type];
  if (vector === undefined) throw new Error(`no vector of ${type}`);
  const { bits, group_size: group } = settings(type);
  const tensor = (part: string, dtype: string, columns: number, base64: string) => ({
    name: `${name}.${part}`,
    dtype,
    shape: [vector.rows, columns],
    bytes: Buffer.from(base64, 'base64'),
  });
  return [
    tensor('weight', 'U32', (vector.columns * bits) / 32, vector.weight),
    tensor('scales', vector.dtype, vector.columns / group, vector.scales),
    tensor('biases', vector.dtype, vector.columns / group, vector.biases),
  ];
}

function settings(type: string): { readonly bits: number; readonly group_size: number } {
  const [, bits, group] = /^MLX(\d)_G(\d+)$/.exec(type) ?? [];
  return { bits: Number(bits), group_size: Number(group) };
}

/** The type of a weight whose scales are of this one. */
function withScales(type: string, dtype: string | undefined): string {
  return dtype === 'F32' ? type : `${type}_${dtype}`;
}

function expectValues(actual: Float32Array, type: string): void {
  const expected = floatsOf(vectors[type]?.values ?? '');
  expect(actual).toHaveLength(expected.length);
  for (const [index, value] of expected.entries()) expect(actual[index]).toBeCloseTo(value, 7);
}

describe('mlxWeights', () => {
  it.each(Object.keys(vectors))('%s: one tensor in place of three, with the values of mlx', (type) => {
    const norm = { name: 'norm.weight', dtype: 'F32', shape: [1], bytes: float32Bytes([3]) };
    const weights = open([norm, ...moduleTensors('layer', type)], settings(type));
    expect([...weights.tensors.keys()].sort()).toEqual(['layer.weight', 'norm.weight']);
    expect(weights.tensors.get('layer.weight')).toMatchObject({
      type: withScales(type, vectors[type]?.dtype),
      shape: [vectors[type]?.rows, vectors[type]?.columns],
    });
    expectValues(readFloats(weights, 'layer.weight'), type);
    expect(readFloats(weights, 'norm.weight')).toEqual(Float32Array.of(3));
    weights.close();
  });

  it('takes scales and biases of two types as float32', () => {
    const [packed, scales, biases] = moduleTensors('a', 'MLX4_G64') as [
      SafetensorsWriterTensor,
      SafetensorsWriterTensor,
      SafetensorsWriterTensor,
    ];
    // A BF16 is the upper half of a float32.
    const wide = new Uint8Array(2 * scales.bytes.length);
    for (const [index, byte] of scales.bytes.entries()) wide[4 * (index >> 1) + 2 + (index & 1)] = byte;
    const weights = open([packed, { ...scales, dtype: 'F32', bytes: wide }, biases], settings('MLX4_G64'));
    expect(weights.tensors.get('a.weight')?.type).toBe('MLX4_G64');
    expectValues(readFloats(weights, 'a.weight'), 'MLX4_G64');
    weights.close();
  });

  it.each(floatModes)('reads the mode $mode, and modules of another mode beside it', (one) => {
    const { mode, bits, group, type, vector } = one;
    const tensors = [...floatModule(one), ...moduleTensors('a', 'MLX6_G64')];
    const weights = open(tensors, { bits, group_size: group, mode, a: settings('MLX6_G64') });
    expect(weights.tensors.get('x.weight')).toMatchObject({ type, shape: [vector.rows, vector.columns] });
    const expected = floatsOf(vector.values).map((value) => value + 0);
    expect(readFloats(weights, 'x.weight').map((value) => value + 0)).toEqual(expected);
    expect(readFloatRows(weights, 'x.weight', 1, 1).map((value) => value + 0)).toEqual(
      expected.slice(vector.columns, 2 * vector.columns),
    );
    expectValues(readFloats(weights, 'a.weight'), 'MLX6_G64');
    weights.close();
  });

  it('follows the settings of single modules', () => {
    const weights = open([...moduleTensors('a', 'MLX4_G64'), ...moduleTensors('b', 'MLX8_G32')], {
      ...settings('MLX4_G64'),
      b: settings('MLX8_G32'),
      'some.plain.module': false,
    });
    expectValues(readFloats(weights, 'a.weight'), 'MLX4_G64');
    expectValues(readFloats(weights, 'b.weight'), 'MLX8_G32');
    weights.close();
  });

  it('reads the same rows one by one, all at once, and in a stack of matrices', () => {
    const [rows, columns, group] = [48, 65_536, 64];
    const groups = columns / group;
    const values = Array.from({ length: rows * groups }, (_, index) => ((index * 37) % 101) / 64);
    const packed = Uint8Array.from({ length: (rows * columns) / 2 }, (_, index) => (index * 131) >> 3);
    const weights = open(
      [
        { name: 'x.weight', dtype: 'U32', shape: [2, rows / 2, columns / 8], bytes: packed },
        { name: 'x.scales', dtype: 'F32', shape: [2, rows / 2, groups], bytes: float32Bytes(values) },
        { name: 'x.biases', dtype: 'F32', shape: [2, rows / 2, groups], bytes: float32Bytes(values) },
      ],
      { bits: 4, group_size: group },
    );
    const all = readFloats(weights, 'x.weight');
    expect(all).toHaveLength(rows * columns);
    for (let row = 0; row < rows; row++) {
      const one = readFloatRows(weights, 'x.weight', row, 1);
      expect(Buffer.from(one.buffer).equals(Buffer.from(all.buffer, row * columns * 4, columns * 4))).toBe(
        true,
      );
    }
    weights.close();
  });
});

describe('a bad MLX model is refused with file, field and remedy', () => {
  const good = moduleTensors('a', 'MLX4_G64');
  const without = (part: string) => good.filter(({ name }) => name !== `a.${part}`);

  it.each<[string, readonly SafetensorsWriterTensor[], object, RegExp]>([
    ['7 bits', good, { bits: 7, group_size: 64 }, /config\.json: quantization\.bits: 7 is not supported/],
    ['groups of 16', good, { bits: 4, group_size: 16 }, /quantization\.group_size: 16 is not supported/],
    ['no group size', good, { bits: 4 }, /group_size: no value is not supported/],
    ['mode nf4', good, { bits: 4, group_size: 16, mode: 'nf4' }, /mode: "nf4" is not supported/],
    ['mode nvfp4 in groups of 32', good, { bits: 4, group_size: 32, mode: 'nvfp4' }, /group_size: 32 is not/],
    [
      'mode nvfp4 with half a block',
      [
        { name: 'a.weight', dtype: 'U32', shape: [2, 6], bytes: new Uint8Array(48) },
        { name: 'a.scales', dtype: 'U8', shape: [2, 3], bytes: new Uint8Array(6) },
      ],
      { bits: 4, group_size: 16, mode: 'nvfp4' },
      /a\.weight: its rows of 48 values are not whole blocks of 32/,
    ],
    [
      'mode mxfp4 with 8 bits',
      good,
      { bits: 8, group_size: 32, mode: 'mxfp4' },
      /quantization\.bits: 8 is not supported/,
    ],
    [
      'mode mxfp4 with scales that are floats',
      moduleTensors('a', 'MLX4_G32'),
      { bits: 4, group_size: 32, mode: 'mxfp4' },
      /a\.scales: has the dtype F32 where U8/,
    ],
    [
      'an override with 9 bits',
      good,
      { bits: 4, group_size: 64, a: { bits: 9 } },
      /quantization\.a\.bits: 9 is not supported/,
    ],
    [
      'scales of a plain module',
      good,
      { bits: 4, group_size: 64, a: false },
      /is false, but the module has scales/,
    ],
    ['groups that do not fit', good, { bits: 4, group_size: 32 }, /a\.scales: has the shape \[3, 2\] where/],
    ['bits that do not fit', good, { bits: 8, group_size: 64 }, /a\.scales: has the shape/],
    ['no biases', without('biases'), { bits: 4, group_size: 64 }, /a\.biases: is missing/],
    ['no weight', without('weight'), { bits: 4, group_size: 64 }, /a\.weight: is missing/],
    [
      'a weight of floats',
      [...without('weight'), { name: 'a.weight', dtype: 'F32', shape: [3, 16], bytes: new Uint8Array(192) }],
      { bits: 4, group_size: 64 },
      /a\.weight: has the dtype F32 where U32/,
    ],
  ])('%s', (_, tensors, quantization, message) => {
    expect(() => open(tensors, quantization)).toThrow(ModelFileError);
    expect(() => open(tensors, quantization)).toThrow(message);
  });

  it('a packed weight without scales, when it is read', () => {
    const weights = open(without('scales'), { bits: 4, group_size: 64 });
    expect(() => readFloats(weights, 'a.weight')).toThrow(/a\.weight: has the dtype U32/);
    weights.close();
  });
});

describe.skipIf(!hasTestdata)('reference MLX folders (skipped without shared test data)', () => {
  it.each([4, 8])('%i bit: dequantized weights lie within two steps of the original', (bits) => {
    const original = openModelFiles(testdata('tinystories-656k')).weights;
    const quantized = openModelFiles(testdata(`tinystories-656k-mlx-${bits}bit`));
    expect(quantized.format).toBe('mlx');
    expect([...quantized.weights.tensors.keys()].sort()).toEqual([...original.tensors.keys()].sort());
    for (const [name, tensor] of quantized.weights.tensors) {
      if (!tensor.type.startsWith(`MLX${bits}_G64`)) continue;
      for (let row = 0; row < rowsOf(tensor); row++) {
        const expected = readFloatRows(original, name, row, 1);
        const actual = readFloatRows(quantized.weights, name, row, 1);
        const range = Math.max(...expected) - Math.min(...expected);
        const worst = Math.max(
          ...expected.map((value, index) => Math.abs(value - (actual[index] ?? Number.NaN))),
        );
        expect(worst).toBeLessThan((2 * range) / (2 ** bits - 1));
      }
    }
    original.close();
    quantized.weights.close();
  });
});
