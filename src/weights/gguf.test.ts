import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { type GgufContent, type GgufWriterTensor, writeGguf } from '../../test/support/gguf-writer.ts';
import { randomBlocks, seededRandom } from '../../test/support/random-blocks.ts';
import { float32Bytes } from '../../test/support/safetensors-writer.ts';
import { hasTestdata, testdata } from '../../test/support/testdata.ts';
import { openGguf } from './gguf.ts';
import { MetadataReader } from './gguf-metadata.ts';
import { supportedTypes } from './gguf-tensors.ts';
import { ModelFileError } from './model-file-error.ts';
import { dequantize } from './quants/dequantize.ts';
import { tensorLayouts } from './tensor-type.ts';
import { readFloatRows, readFloats } from './weight-source.ts';

const folder = mkdtempSync(join(tmpdir(), 'chairlift-gguf-'));
afterAll(() => rmSync(folder, { recursive: true }));

const matrix: GgufWriterTensor = {
  name: 'matrix',
  type: 'F32',
  shape: [2, 3],
  bytes: float32Bytes([1, 2, 3, 4, 5, 6]),
};
const vector: GgufWriterTensor = { name: 'vector', type: 'F32', shape: [2], bytes: float32Bytes([7, 8]) };

const content: GgufContent = {
  metadata: {
    'general.architecture': { type: 'string', value: 'llama' },
    'a.u8': { type: 'u8', value: 200 },
    'a.i8': { type: 'i8', value: -5 },
    'a.u16': { type: 'u16', value: 60000 },
    'a.i16': { type: 'i16', value: -600 },
    'a.u32': { type: 'u32', value: 4e9 },
    'a.i32': { type: 'i32', value: -7 },
    'a.f32': { type: 'f32', value: 0.5 },
    'a.f64': { type: 'f64', value: 0.1 },
    'a.u64': { type: 'u64', value: 2n ** 40n },
    'a.large': { type: 'u64', value: 2n ** 63n },
    'a.i64': { type: 'i64', value: -3n },
    'a.bool': { type: 'bool', value: true },
    'a.strings': { type: 'strings', value: ['', 'naïve', '東京'] },
    'a.bools': { type: 'bools', value: [true, false] },
    'a.i32s': { type: 'i32s', value: [-1, 2] },
    'a.f32s': { type: 'f32s', value: [0.25, -8] },
  },
  tensors: [matrix, vector],
};

function save(bytes: Uint8Array, name = 'model.gguf'): string {
  const path = join(folder, name);
  writeFileSync(path, bytes);
  return path;
}

/** Opens the content after `change` has had its way with the bytes. */
function openChanged(
  change: (bytes: Buffer, at: (field: string) => number) => Buffer | undefined,
): () => unknown {
  const { bytes, fields } = writeGguf(content);
  const at = (name: string): number => {
    const field = fields.find((candidate) => candidate.name === name);
    if (field === undefined) throw new Error(`no field ${name}`);
    return field.offset;
  };
  return () => openGguf(save(change(bytes, at) ?? bytes));
}

describe('openGguf', () => {
  it.each([2, 3])('reads metadata of every type and tensors from version %i', (version) => {
    const gguf = openGguf(save(writeGguf({ ...content, version }).bytes));
    expect(gguf.version).toBe(version);
    expect(Object.fromEntries(gguf.metadata)).toEqual({
      'general.architecture': 'llama',
      'a.u8': 200,
      'a.i8': -5,
      'a.u16': 60000,
      'a.i16': -600,
      'a.u32': 4e9,
      'a.i32': -7,
      'a.f32': 0.5,
      'a.f64': 0.1,
      'a.u64': 2 ** 40,
      'a.large': 2n ** 63n,
      'a.i64': -3,
      'a.bool': true,
      'a.strings': ['', 'naïve', '東京'],
      'a.bools': Uint8Array.of(1, 0),
      'a.i32s': Int32Array.of(-1, 2),
      'a.f32s': Float32Array.of(0.25, -8),
    });
    expect(gguf.weights.tensors.get('matrix')).toMatchObject({ type: 'F32', shape: [2, 3] });
    expect(readFloats(gguf.weights, 'matrix')).toEqual(Float32Array.of(1, 2, 3, 4, 5, 6));
    expect(readFloatRows(gguf.weights, 'matrix', 1, 1)).toEqual(Float32Array.of(4, 5, 6));
    expect(readFloats(gguf.weights, 'vector')).toEqual(Float32Array.of(7, 8));
    gguf.weights.close();
  });

  it('reads a header that spans many windows, with a string larger than one', () => {
    const tokens = Array.from({ length: 150_000 }, (_, index) => `token ${index}`);
    const template = 'x'.repeat(3 * 2 ** 20);
    const { bytes } = writeGguf({
      metadata: { tokens: { type: 'strings', value: tokens }, template: { type: 'string', value: template } },
      tensors: [vector],
    });
    const { metadata, weights } = openGguf(save(bytes));
    expect(metadata.get('tokens')).toEqual(tokens);
    expect(metadata.get('template')).toBe(template);
    expect(readFloats(weights, 'vector')).toEqual(Float32Array.of(7, 8));
    weights.close();
  });

  it('accepts a vocabulary without tensors', () => {
    const { weights } = openGguf(save(writeGguf({ metadata: content.metadata, tensors: [] }).bytes));
    expect(weights.tensors.size).toBe(0);
    weights.close();
  });

  it.each([...supportedTypes.values()])('counts the rows of a stack of %s matrices on', (type) => {
    const bytes = randomBlocks(type, (2 * 3 * 256) / tensorLayouts[type].blockSize, seededRandom(5));
    const experts = { name: 'experts', type, shape: [2, 3, 256], bytes };
    const { weights } = openGguf(save(writeGguf({ metadata: {}, tensors: [experts] }).bytes));
    const expected = new Float32Array(2 * 3 * 256);
    dequantize(type, bytes, expected);
    expect(weights.tensors.get('experts')).toMatchObject({ type, shape: [2, 3, 256] });
    expect(readFloatRows(weights, 'experts', 2, 3)).toEqual(expected.slice(2 * 256, 5 * 256));
    expect(readFloats(weights, 'experts')).toEqual(expected);
    expect(() => readFloatRows(weights, 'experts', 5, 2)).toThrow(/the tensor has 6/);
    weights.close();
  });

  describe('of a split file', () => {
    const part = (index: number, tensor: GgufWriterTensor, { count = 2, tensors = 2 } = {}) =>
      writeGguf({
        metadata: {
          ...(index === 0 ? { 'general.name': { type: 'string', value: 'the first' } as const } : {}),
          'split.no': { type: 'u16', value: index },
          'split.count': { type: 'u16', value: count },
          'split.tensors.count': { type: 'i32', value: tensors },
        },
        tensors: [tensor],
      }).bytes;
    const saveBoth = (): readonly string[] => [
      save(part(0, matrix), 'split-00001-of-00002.gguf'),
      save(part(1, vector), 'split-00002-of-00002.gguf'),
    ];

    it('opens all parts, whichever is given', () => {
      const [first = '', second = ''] = saveBoth();
      for (const given of [first, second]) {
        const { path, metadata, weights } = openGguf(given);
        expect(path).toBe(first);
        expect(metadata.get('general.name')).toBe('the first');
        expect(readFloats(weights, 'matrix')).toHaveLength(6);
        expect(readFloats(weights, 'vector')).toHaveLength(2);
        weights.close();
      }
    });

    it.each([
      [0, /split-00001-of-00002\.gguf: path: does not exist: part 1 of 2 is missing\. Download all parts/],
      [1, /split-00002-of-00002\.gguf: path: does not exist: part 2 of 2 is missing\. Download all parts/],
    ])('names the part that is missing', (missing, message) => {
      const paths = saveBoth();
      rmSync(paths[missing] as string);
      expect(() => openGguf(paths[1 - missing] as string)).toThrow(message);
    });

    it.each<[string, Buffer, RegExp]>([
      ['a tensor twice', part(1, matrix), /another part has a tensor of this name/],
      ['another number', part(0, vector), /split\.no: is not that of part 2 of this model/],
      ['another count', part(1, vector, { count: 3 }), /split\.count: is not that of part 2/],
      ['another total', part(1, vector, { tensors: 3 }), /split\.tensors\.count: is not that of part 2/],
    ])('refuses parts with %s', (_, other, message) => {
      const [first = ''] = saveBoth();
      save(other, 'split-00002-of-00002.gguf');
      expect(() => openGguf(first)).toThrow(message);
    });

    it('refuses parts that lack a tensor, and names that lie', () => {
      const first = save(part(0, matrix, { tensors: 3 }), 'split-00001-of-00002.gguf');
      save(part(1, vector, { tensors: 3 }), 'split-00002-of-00002.gguf');
      expect(() => openGguf(first)).toThrow(/announces 3 tensors, but the parts hold 2/);
      const renamed = save(part(0, matrix), 'renamed.gguf');
      expect(() => openGguf(renamed)).toThrow(/split\.count: is 2, which the file’s name does not say/);
    });
  });
});

describe('a bad GGUF file is refused with file, field and remedy', () => {
  it.each<[string, RegExp, Parameters<typeof openChanged>[0]]>([
    ['an empty file', /magic: the file ends at byte 0/, () => Buffer.alloc(0)],
    ['other magic', /does not begin with "GGUF"/, (bytes) => void bytes.write('GGML')],
    ['version 1', /version 1 is not supported\. Download a newer/, (bytes) => void bytes.writeUInt32LE(1, 4)],
    ['a future version', /version 4 is not known/, (bytes) => void bytes.writeUInt32LE(4, 4)],
    ['big-endian', /big-endian/, (bytes) => void bytes.writeUInt32BE(3, 4)],
    [
      'a Git LFS pointer',
      /git lfs pull/,
      () => Buffer.from('version https://git-lfs.github.com/spec/v1\noid sha256:0\n'),
    ],
    [
      'a lying tensor count',
      /tensor count: announces 1000000000000 items/,
      (bytes, at) => void bytes.writeBigUInt64LE(10n ** 12n, at('tensor count')),
    ],
    [
      'a count beyond 2^53',
      /metadata count: holds the impossible size 18446744073709551615/,
      (bytes, at) => void bytes.writeBigUInt64LE(2n ** 64n - 1n, at('metadata count')),
    ],
    [
      'an absurd string length',
      /general\.architecture: announces/,
      (bytes, at) => void bytes.writeBigUInt64LE(2n ** 40n, at('general.architecture length')),
    ],
    [
      'an absurd array count',
      /a\.f32s: announces/,
      (bytes, at) => void bytes.writeBigUInt64LE(2n ** 31n, at('a.f32s count')),
    ],
    [
      'an array count whose bytes the file lacks, though it has as many bytes as items',
      /a\.f32s: announces \d+ items, more than the \d+ bytes left can hold/,
      (bytes, at) => {
        const count = at('a.f32s count');
        bytes.writeBigUInt64LE(BigInt(bytes.length - count - 8), count);
      },
    ],
    [
      'an unknown value type',
      /a\.u32: has the unknown value type 99/,
      (bytes, at) => void bytes.writeUInt32LE(99, at('a.u32 type')),
    ],
    [
      'arrays of arrays',
      /arrays within an array/,
      (bytes, at) => void bytes.writeUInt32LE(9, at('a.strings item type')),
    ],
    [
      'a boolean that is none',
      /a\.bool: is 2 where/,
      (bytes, at) => void bytes.writeUInt8(2, at('a.bool type') + 4),
    ],
    [
      'an unsupported tensor type',
      /matrix: has the type NVFP4, which is not supported\. .*Q4_K/,
      (bytes, at) => void bytes.writeUInt32LE(40, at('matrix type')),
    ],
    [
      'an unknown tensor type',
      /unknown tensor type number 77/,
      (bytes, at) => void bytes.writeUInt32LE(77, at('matrix type')),
    ],
    [
      'rows that are not whole blocks',
      /rows of 3 values are not whole Q8_0 blocks/,
      (bytes, at) => void bytes.writeUInt32LE(8, at('matrix type')),
    ],
    [
      'too many dimensions',
      /matrix: has 9 dimensions/,
      (bytes, at) => void bytes.writeUInt32LE(9, at('matrix dimensions')),
    ],
    [
      'an empty dimension',
      /impossible shape/,
      (bytes, at) => void bytes.writeBigUInt64LE(0n, at('matrix dimension')),
    ],
    [
      'a tensor out of range',
      /matrix: needs .* bytes at offset/,
      (bytes, at) => void bytes.writeBigUInt64LE(2n ** 30n, at('matrix dimension')),
    ],
    [
      'a misaligned offset',
      /offset 33 is not a multiple/,
      (bytes, at) => void bytes.writeBigUInt64LE(33n, at('vector offset')),
    ],
    [
      'overlapping tensors',
      /overlap those of matrix/,
      (bytes, at) => void bytes.writeBigUInt64LE(0n, at('vector offset')),
    ],
    ['truncated data', /needs 8 bytes at offset/, (bytes) => bytes.subarray(0, bytes.length - 32)],
    ['a truncated header', /truncated or damaged/, (bytes) => bytes.subarray(0, 100)],
  ])('%s', (_, message, change) => {
    const open = openChanged(change);
    expect(open).toThrow(ModelFileError);
    expect(open).toThrow(message);
    expect(open).toThrow(join(folder, 'model.gguf'));
  });

  it('two tensors of one name, two keys of one name, a bad alignment', () => {
    const twice = writeGguf({ ...content, tensors: [matrix, matrix] }).bytes;
    expect(() => openGguf(save(twice))).toThrow(/two tensors have this name/);
    const bytes = writeGguf({ ...content, tensors: [] }).bytes;
    const renamed = Buffer.from(bytes.toString('latin1').replace('a.i8', 'a.u8'), 'latin1');
    expect(() => openGguf(save(renamed))).toThrow(/a\.u8: the key occurs twice/);
    const alignment = { 'general.alignment': { type: 'u32', value: 24 } } as const;
    expect(() => openGguf(save(writeGguf({ metadata: alignment, tensors: [] }).bytes))).toThrow(
      /power of two/,
    );
  });

  it('a missing tensor and rows beyond a tensor, when they are read', () => {
    const { weights } = openGguf(save(writeGguf(content).bytes));
    expect(() => readFloats(weights, 'absent')).toThrow(/model\.gguf: absent: the model has no tensor/);
    expect(() => readFloatRows(weights, 'matrix', 1, 1e12)).toThrow(/the tensor has 2/);
    expect(() => weights.readRows('matrix', 2, 1, new Uint8Array(12))).toThrow(ModelFileError);
    weights.close();
    expect(() => readFloats(weights, 'matrix')).toThrow(/closed/);
  });
});

describe('MetadataReader', () => {
  it('gives values of the wanted kind, and errors that name file and key', () => {
    const gguf = openGguf(save(writeGguf(content).bytes));
    gguf.weights.close();
    const metadata = new MetadataReader(gguf);
    expect(metadata.string('general.architecture')).toBe('llama');
    expect(metadata.number('a.f32')).toBe(0.5);
    expect(metadata.boolean('a.bool')).toBe(true);
    expect(metadata.strings('a.strings')).toHaveLength(3);
    expect(metadata.numbers('a.i32s')).toEqual(Int32Array.of(-1, 2));
    expect(metadata.optionalString('absent')).toBeUndefined();
    expect(() => metadata.string('absent')).toThrow(/model\.gguf: absent: the key is missing/);
    expect(() => metadata.string('a.u8')).toThrow(/a\.u8: is not a string/);
    expect(() => metadata.number('a.large')).toThrow(/a\.large: is not a finite number/);
  });
});

interface GoldenTensor {
  readonly type: string;
  readonly sum: number;
  readonly abs_sum: number;
  readonly first8?: readonly number[];
}

function goldenFiles(): readonly (readonly [string, Readonly<Record<string, GoldenTensor>>])[] {
  if (!hasTestdata) return [['golden.json', {}]];
  const { files } = JSON.parse(readFileSync(testdata('quants', 'golden.json'), 'utf8'));
  return Object.keys(files).map((name) => [name, files[name].tensors]);
}

describe.skipIf(!hasTestdata)('reference GGUF files of every type (skipped without shared test data)', () => {
  it.each(goldenFiles())('%s: every tensor dequantizes to its reference sums', (name, golden) => {
    const { weights } = openGguf(testdata('quants', `${name}.gguf`));
    expect([...weights.tensors.keys()].sort()).toEqual(Object.keys(golden).sort());
    for (const [tensorName, expected] of Object.entries(golden)) {
      const values = readFloats(weights, tensorName);
      expect(weights.tensors.get(tensorName)?.type).toBe(expected.type);
      expect(values.reduce((sum, value) => sum + value, 0)).toBeCloseTo(expected.sum, 3);
      expect(values.reduce((sum, value) => sum + Math.abs(value), 0)).toBeCloseTo(expected.abs_sum, 3);
      for (const [index, value] of (expected.first8 ?? []).entries()) {
        expect(values[index]).toBeCloseTo(value, 5);
      }
    }
    weights.close();
  });

  it('a file of version 1 is refused', () => {
    expect(() => openGguf(testdata('legacy', 'gguf-v1.gguf'))).toThrow(/version 1 is not supported/);
  });
});
