// What is refused of models of bitsandbytes, and how they lie in memory; that their weights are right is the matter of
// test/golden/quantized-models.test.ts.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
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

const folder = mkdtempSync(join(tmpdir(), 'chairlift-bitsandbytes-'));
afterAll(() => rmSync(folder, { recursive: true }));

const four = { quant_method: 'bitsandbytes', load_in_4bit: true, load_in_8bit: false };

function open(tensors: readonly SafetensorsWriterTensor[], settings: object = four) {
  writeFileSync(join(folder, 'model.safetensors'), writeSafetensors(tensors));
  writeFileSync(join(folder, 'config.json'), JSON.stringify({ quantization_config: settings }));
  return openModelFiles(folder).weights;
}

function bytes(name: string, shape: readonly number[], value: (index: number) => number, dtype = 'U8') {
  const length = shape.reduce((product, size) => product * size, dtype === 'BF16' ? 2 : 1);
  return { name, dtype, shape, bytes: Uint8Array.from({ length }, (_, index) => value(index)) };
}

function floats(name: string, values: readonly number[]) {
  return { name, dtype: 'F32', shape: [values.length], bytes: float32Bytes(values) };
}

function state(settings: object) {
  const text = Buffer.from(JSON.stringify(settings));
  return { name: 'x.weight.quant_state.bitsandbytes__nf4', dtype: 'U8', shape: [text.length], bytes: text };
}

const settings = { quant_type: 'nf4', blocksize: 64, dtype: 'float32', shape: [3, 96] };
const map = floats(
  'x.weight.quant_map',
  Array.from({ length: 16 }, (_, code) => code),
);
/** Codes 1 and 2 in turn. */
const codes = bytes('x.weight', [144, 1], () => 0x12);
const absmax = floats('x.weight.absmax', [1, 10, 100, 1000, 10_000]);
const whole = [codes, map, absmax, state(settings)];
const twice = [
  codes,
  map,
  bytes('x.weight.absmax', [5], (index) => index),
  floats('x.weight.nested_absmax', [1, 10, 100]),
  floats(
    'x.weight.nested_quant_map',
    Array.from({ length: 256 }, (_, code) => code),
  ),
  state({ ...settings, nested_blocksize: 2, nested_dtype: 'float32', nested_offset: 0.5 }),
];

describe('a model quantized by bitsandbytes', () => {
  it('has blocks that run on over the ends of rows', () => {
    const weights = open(whole);
    expect([...weights.tensors.values()]).toMatchObject([{ name: 'x.weight', type: 'F32', shape: [3, 96] }]);
    const values = readFloats(weights, 'x.weight');
    expect(values).toEqual(
      Float32Array.from({ length: 288 }, (_, i) => (1 + (i % 2)) * 10 ** Math.floor(i / 64)),
    );
    expect(readFloatRows(weights, 'x.weight', 1, 1)).toEqual(values.subarray(96, 192));
    weights.close();
  });

  it('has factors that are quantized themselves', () => {
    const weights = open(twice);
    const factors = [0.5, 1.5, 20.5, 30.5, 400.5];
    const values = readFloats(weights, 'x.weight');
    expect(values).toEqual(
      Float32Array.from({ length: 288 }, (_, i) => (1 + (i % 2)) * (factors[Math.floor(i / 64)] as number)),
    );
    expect(readFloatRows(weights, 'x.weight', 2, 1)).toEqual(values.subarray(192));
    weights.close();
  });

  it('may store its codes as if they were floats', () => {
    const weights = open([bytes('x.weight', [72, 1], () => 0x12, 'BF16'), ...whole.slice(1)]);
    expect(weights.tensors.get('x.weight')).toMatchObject({ type: 'F32', shape: [3, 96] });
    expect(readFloats(weights, 'x.weight')[0]).toBe(1);
    weights.close();
  });

  it.each<[string, readonly SafetensorsWriterTensor[], object, RegExp]>([
    [
      '8 bits',
      whole,
      { ...four, load_in_8bit: true },
      /quantization_config\.load_in_8bit: true is not supported/,
    ],
    ['no bits', whole, { quant_method: 'bitsandbytes' }, /load_in_4bit: no value is not supported/],
    [
      'too few codes',
      [bytes('x.weight', [100, 1], () => 0), ...whole.slice(1)],
      four,
      /x\.weight: has 100 bytes where 3/,
    ],
    ['no codes', whole.slice(1), four, /x\.weight: is missing beside x\.weight\.quant_state/],
    ['no factors', [codes, map, state(settings)], four, /x\.weight\.absmax: is missing beside/],
    [
      'other blocks',
      [codes, map, absmax, state({ ...settings, blocksize: 32 })],
      four,
      /absmax: has the shape \[5\]/,
    ],
    [
      'no blocks',
      [codes, map, absmax, state({ ...settings, blocksize: 0 })],
      four,
      /has the blocksize 0, which is not/,
    ],
    [
      'a vector',
      [codes, map, absmax, state({ ...settings, shape: [288] })],
      four,
      /has the shape \[288\], which is not/,
    ],
    [
      'another float',
      [codes, map, absmax, state({ ...settings, dtype: 'float8' })],
      four,
      /has the dtype "float8"/,
    ],
    [
      'no offset',
      [...twice.slice(0, 5), state({ ...settings, nested_blocksize: 2 })],
      four,
      /nested_offset undefined/,
    ],
    ['no JSON', [codes, map, absmax, { ...state({}), bytes: Buffer.from('{]') }], four, /is not valid JSON/],
  ])('is refused with %s', (_, tensors, own, message) => {
    const given = tensors.map((one) => ({
      ...one,
      shape: one.name.includes('state') ? [one.bytes.length] : one.shape,
    }));
    expect(() => open(given, own)).toThrow(ModelFileError);
    expect(() => open(given, own)).toThrow(message);
  });

  it('is refused where a weight is too large for its float', () => {
    const weights = open([
      codes,
      map,
      floats('x.weight.absmax', [1e6, 1, 1, 1, 1]),
      state({ ...settings, dtype: 'float16' }),
    ]);
    expect(() => readFloats(weights, 'x.weight')).toThrow(/x\.weight: stands for weights too large for F16/);
    weights.close();
  });
});
