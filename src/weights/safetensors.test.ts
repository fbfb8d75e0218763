import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { float32Bytes, joinSafetensors, writeSafetensors } from '../../test/support/safetensors-writer.ts';
import { ModelFileError } from './model-file-error.ts';
import { floatWeights, openSafetensors, openSafetensorsIndex } from './safetensors.ts';
import { readFloats } from './weight-source.ts';

const folder = mkdtempSync(join(tmpdir(), 'chairlift-safetensors-'));
afterAll(() => rmSync(folder, { recursive: true }));

const matrix = { name: 'matrix', dtype: 'F32', shape: [2, 2], bytes: float32Bytes([1, 2, 3, 4]) };
const vector = { name: 'vector', dtype: 'F32', shape: [1], bytes: float32Bytes([5]) };

function save(name: string, bytes: Uint8Array | string): string {
  const path = join(folder, name);
  writeFileSync(path, bytes);
  return path;
}

function open(bytes: Uint8Array) {
  const path = save('model.safetensors', bytes);
  return floatWeights(openSafetensors(path, [path]));
}

describe('openSafetensors', () => {
  it('reads F32, F16 and BF16 tensors', () => {
    const weights = open(
      writeSafetensors([
        matrix,
        { name: 'half', dtype: 'F16', shape: [2], bytes: Uint8Array.of(0x00, 0x3c, 0x00, 0xc1) },
        { name: 'brain', dtype: 'BF16', shape: [2, 1], bytes: Uint8Array.of(0x80, 0x3f, 0x20, 0xc0) },
        { name: 'scalar', dtype: 'F32', shape: [], bytes: float32Bytes([9]) },
      ]),
    );
    expect(weights.tensors.get('matrix')).toMatchObject({ type: 'F32', shape: [2, 2] });
    expect(readFloats(weights, 'matrix')).toEqual(Float32Array.of(1, 2, 3, 4));
    expect(readFloats(weights, 'half')).toEqual(Float32Array.of(1, -2.5));
    expect(readFloats(weights, 'brain')).toEqual(Float32Array.of(1, -2.5));
    expect(readFloats(weights, 'scalar')).toEqual(Float32Array.of(9));
    weights.close();
  });

  it('tells what headers say of their writer, once for all files that say the same', () => {
    const file = (name: string, header: object) => save(name, joinSafetensors(header, new Uint8Array(0)));
    const paths = [
      file('a.safetensors', { __metadata__: { format: 'mlx' } }),
      file('b.safetensors', { __metadata__: { format: 'mlx' } }),
      file('c.safetensors', { __metadata__: { format: 7 } }),
      file('d.safetensors', {}),
    ];
    expect(openSafetensors('model', paths).headerFormats).toEqual(['mlx']);
    expect(openSafetensors('model', paths.slice(2)).headerFormats).toEqual([]);
  });

  it('passes over tensors of other types until they are asked for', () => {
    const weights = open(
      writeSafetensors([
        matrix,
        { name: 'positions', dtype: 'I64', shape: [1], bytes: new Uint8Array(8) },
        { name: 'novel', dtype: 'F4_NEW', shape: [3], bytes: new Uint8Array(2) },
        { name: 'nothing', dtype: 'F32', shape: [0, 4], bytes: new Uint8Array(0) },
      ]),
    );
    expect([...weights.tensors.keys()]).toEqual(['matrix']);
    expect(() => readFloats(weights, 'positions')).toThrow(
      /positions: has the dtype I64, which cannot be used/,
    );
    expect(() => readFloats(weights, 'novel')).toThrow(/dtype F4_NEW/);
    expect(() => readFloats(weights, 'nothing')).toThrow(/holds no values/);
    expect(() => readFloats(weights, 'absent')).toThrow(/no tensor of this name/);
    weights.close();
  });
});

describe('a bad safetensors file is refused with file, field and remedy', () => {
  const entry = (change: object) =>
    joinSafetensors({ a: { dtype: 'F32', shape: [2], data_offsets: [0, 8], ...change } }, new Uint8Array(8));

  it.each<[string, Uint8Array, RegExp]>([
    ['no header', Uint8Array.of(1, 2), /header length: needs 8 bytes/],
    ['an absurd header length', new Uint8Array(16).fill(255), /header length: is 18446744073709551615/],
    ['a header that is not JSON', joinSafetensors({}, new Uint8Array(0)).fill('x', 8), /not valid JSON/],
    ['a header that is a list', joinSafetensors([1], new Uint8Array(0)), /not a JSON object/],
    ['an entry that is a number', joinSafetensors({ a: 1 }, new Uint8Array(0)), /a: is not an object/],
    ['no dtype', entry({ dtype: 7 }), /has no dtype/],
    ['a shape of fractions', entry({ shape: [0.5] }), /no valid shape/],
    ['a negative shape', entry({ shape: [-2] }), /no valid shape/],
    ['offsets of one number', entry({ data_offsets: [0] }), /no valid data_offsets/],
    ['offsets in reverse', entry({ data_offsets: [8, 0] }), /leave the 8 bytes/],
    ['offsets past the end', entry({ data_offsets: [0, 80] }), /leave the 8 bytes/],
    ['a shape that lies', entry({ shape: [2 ** 40] }), /takes 4398046511104 bytes, data_offsets span 8/],
    [
      'overlapping tensors',
      joinSafetensors(
        {
          a: { dtype: 'F32', shape: [1], data_offsets: [0, 4] },
          b: { dtype: 'F32', shape: [1], data_offsets: [3, 7] },
        },
        new Uint8Array(8),
      ),
      /b: its bytes .* overlap those of a/,
    ],
    ['a truncated file', writeSafetensors([matrix]).subarray(0, -1), /leave the 15 bytes/],
  ])('%s', (_, bytes, message) => {
    expect(() => open(bytes)).toThrow(ModelFileError);
    expect(() => open(bytes)).toThrow(message);
    expect(() => open(bytes)).toThrow(join(folder, 'model.safetensors'));
  });
});

describe('openSafetensorsIndex', () => {
  const index = (weightMap: unknown) =>
    save('model.safetensors.index.json', JSON.stringify({ metadata: {}, weight_map: weightMap }));
  save('first.safetensors', writeSafetensors([matrix]));
  save('second.safetensors', writeSafetensors([vector]));

  it('joins the shards', () => {
    const model = openSafetensorsIndex(index({ matrix: 'first.safetensors', vector: 'second.safetensors' }));
    const weights = floatWeights(model);
    expect(readFloats(weights, 'matrix')).toHaveLength(4);
    expect(readFloats(weights, 'vector')).toEqual(Float32Array.of(5));
    weights.close();
  });

  it.each<[string, unknown, RegExp]>([
    ['no map', undefined, /weight_map: is missing/],
    ['an empty map', {}, /names no tensor/],
    ['a missing shard', { matrix: 'absent.safetensors' }, /absent\.safetensors: path: does not exist/],
    ['a path out of the folder', { matrix: '../first.safetensors' }, /matrix: its shard is not the name/],
    ['an absolute path', { matrix: '/etc/first.safetensors' }, /its shard is not the name/],
    ['itself as shard', { matrix: 'model.safetensors.index.json' }, /its shard is not the name/],
    ['a number as shard', { matrix: 4 }, /its shard is not the name/],
    ['a tensor that its shard lacks', { absent: 'first.safetensors' }, /absent: is said to lie in first/],
    [
      'the wrong shard',
      { matrix: 'second.safetensors', vector: 'first.safetensors' },
      /matrix: is said to lie in second/,
    ],
  ])('refuses %s', (_, weightMap, message) => {
    const path = index(weightMap);
    expect(() => openSafetensorsIndex(path)).toThrow(ModelFileError);
    expect(() => openSafetensorsIndex(path)).toThrow(message);
  });

  it('refuses a tensor that two shards hold, and a shard that is an index', () => {
    save('again.safetensors', writeSafetensors([matrix]));
    const path = index({ matrix: 'first.safetensors', other: 'again.safetensors' });
    expect(() => openSafetensorsIndex(path)).toThrow(/again\.safetensors: matrix: is also in/);
    save('again.safetensors', JSON.stringify({ weight_map: { matrix: 'again.safetensors' } }));
    expect(() => openSafetensorsIndex(path)).toThrow(/again\.safetensors: header length/);
  });
});
