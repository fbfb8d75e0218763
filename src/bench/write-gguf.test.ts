import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { hasTestdata, testdata } from '../../test/support/testdata.ts';
import { type GgufFile, openGguf } from '../weights/gguf.ts';
import type { GgufValue } from '../weights/gguf-metadata.ts';
import { rowBytes } from '../weights/tensor-type.ts';
import { columnsOf, rowsOf, type TensorInfo } from '../weights/weight-source.ts';
import { dummyTypes, dummyWeights } from './dummy-weights.ts';
import { writeGguf } from './write-gguf.ts';

const folder = mkdtempSync(join(tmpdir(), 'write-gguf-'));
afterAll(() => rmSync(folder, { recursive: true }));

const ggufOf = (metadata: [string, GgufValue][], tensors: readonly TensorInfo[]): GgufFile => ({
  format: 'gguf',
  path: 'memory',
  version: 3,
  metadata: new Map(metadata),
  weights: dummyWeights(tensors),
});

const everyKind: [string, GgufValue][] = [
  ['general.architecture', 'llama'],
  ['text', 'Grüße 🚠'],
  ['empty text', ''],
  ['yes', true],
  ['no', false],
  ['whole', 32],
  ['negative', -7],
  ['half', 0.5],
  ['tenth', 0.1],
  ['above 32 bits', 2 ** 40],
  ['above 53 bits', 2n ** 60n],
  ['below 53 bits', -(2n ** 60n)],
  ['texts', ['a', '', 'ß']],
  ['no texts', []],
  ['int8', Int8Array.of(-1, 2)],
  ['uint8', Uint8Array.of(1, 0, 255)],
  ['int16', Int16Array.of(-300)],
  ['uint16', Uint16Array.of(60000)],
  ['int32', Int32Array.of(1, -2, 3)],
  ['uint32', Uint32Array.of(4e9)],
  ['float32', Float32Array.of(0.25)],
  ['float64', Float64Array.of(0.1)],
  ['int64', BigInt64Array.of(-1n)],
  ['uint64', BigUint64Array.of(1n)],
];

function tensorBytes({ weights }: GgufFile, tensor: TensorInfo): Buffer {
  const rows = rowsOf(tensor);
  const bytes = Buffer.alloc(rows * rowBytes(tensor.type, columnsOf(tensor)));
  weights.readRows(tensor.name, 0, rows, bytes);
  return bytes;
}

function expectSame(read: GgufFile, written: GgufFile): void {
  expect([...read.metadata]).toEqual([...written.metadata]);
  expect([...read.weights.tensors.keys()]).toEqual([...written.weights.tensors.keys()]);
  for (const [name, tensor] of written.weights.tensors) {
    expect(read.weights.tensors.get(name)).toMatchObject({ type: tensor.type, shape: tensor.shape });
    expect(Buffer.compare(tensorBytes(read, tensor), tensorBytes(written, tensor)), name).toBe(0);
  }
}

describe('a written file', () => {
  it('reads back with every kind of metadata and every type of tensor', async () => {
    const ggufTypes = dummyTypes.filter((type) => !type.startsWith('MLX'));
    const tensors = ggufTypes.map((type): TensorInfo => ({ name: `of ${type}`, type, shape: [3, 512] }));
    const file = ggufOf(everyKind, [{ name: 'vector', type: 'F32', shape: [5] }, ...tensors]);
    const path = join(folder, 'kinds.gguf');
    const bytes = await writeGguf(file, path);
    expect(readFileSync(path).length).toBe(bytes);
    const read = openGguf(path);
    expect(read.version).toBe(3);
    expectSame(read, file);
    read.weights.close();
  });

  it('spells header, types and places as the format says', async () => {
    const file = ggufOf(
      [
        ['x.rope.freq_base', 10000],
        ['n', 5],
      ],
      [
        { name: 'v', type: 'F32', shape: [3] },
        { name: 'm', type: 'Q8_0', shape: [2, 32] },
      ],
    );
    const path = join(folder, 'header.gguf');
    await writeGguf(file, path);
    const bytes = readFileSync(path);
    const word = (value: number, size: 4 | 8) => {
      const buffer = Buffer.alloc(size);
      buffer.writeUInt32LE(value);
      return buffer;
    };
    const string = (value: string) => Buffer.concat([word(value.length, 8), Buffer.from(value)]);
    const float = Buffer.alloc(4);
    float.writeFloatLE(10000);
    const header = Buffer.concat([
      Buffer.from('GGUF'),
      word(3, 4),
      word(2, 8),
      word(2, 8),
      ...[string('x.rope.freq_base'), word(6, 4), float],
      ...[string('n'), word(4, 4), word(5, 4)],
      ...[string('v'), word(1, 4), word(3, 8), word(0, 4), word(0, 8)],
      ...[string('m'), word(2, 4), word(32, 8), word(2, 8), word(8, 4), word(32, 8)],
    ]);
    expect(bytes.subarray(0, header.length)).toEqual(header);
    const dataStart = Math.ceil(header.length / 32) * 32;
    expect(bytes.length).toBe(dataStart + 32 + 96);
    expect(bytes.subarray(dataStart + 32, dataStart + 32 + 68)).toEqual(
      tensorBytes(file, { name: 'm', type: 'Q8_0', shape: [2, 32] }),
    );
  });

  it('keeps the alignment that the metadata ask for', async () => {
    const file = ggufOf(
      [['general.alignment', 256]],
      [
        { name: 'a', type: 'F32', shape: [3] },
        { name: 'b', type: 'F32', shape: [3] },
      ],
    );
    const path = join(folder, 'aligned.gguf');
    await writeGguf(file, path);
    const read = openGguf(path);
    expectSame(read, file);
    read.weights.close();
  });

  it('tells how far it is, up to the end', async () => {
    const shares: number[] = [];
    // Two pieces and a bit.
    const file = ggufOf([], [{ name: 'm', type: 'F32', shape: [5000, 1024] }]);
    await writeGguf(file, join(folder, 'large.gguf'), (share) => shares.push(share));
    expect(shares.length).toBeGreaterThan(3);
    expect(shares).toEqual(shares.toSorted((a, b) => a - b));
    expect(shares.at(-1)).toBe(1);
    const read = openGguf(join(folder, 'large.gguf'));
    expectSame(read, file);
    read.weights.close();
  });

  it.skipIf(!hasTestdata)('is the same model for real files (needs the test data)', async () => {
    const quants = readdirSync(testdata('quants')).filter((name) => name.endsWith('.gguf'));
    const paths = [
      testdata('stories260K', 'stories260K.gguf'),
      ...quants.map((name) => testdata('quants', name)),
    ];
    for (const [index, path] of paths.entries()) {
      const file = openGguf(path);
      const copy = join(folder, `copy-${index}.gguf`);
      await writeGguf(file, copy);
      const read = openGguf(copy);
      expectSame(read, file);
      read.weights.close();
      file.weights.close();
    }
  });
});

describe('where nothing can be written', () => {
  const small = ggufOf([], [{ name: 'v', type: 'F32', shape: [3] }]);

  it('a model that the disk cannot hold is refused before it is written', async () => {
    const file = ggufOf([], [{ name: 'huge', type: 'F32', shape: [2 ** 40, 1024] }]);
    const path = join(folder, 'huge.gguf');
    await expect(writeGguf(file, path)).rejects.toThrow(
      `${path}: path: the disk has no room for the 4.50e+6 GB of this model`,
    );
    expect(readdirSync(folder).filter((name) => name.startsWith('huge'))).toEqual([]);
  });

  it.skipIf(process.platform !== 'linux')(
    'a disk that fills meanwhile leaves nothing behind (needs /dev/full)',
    async () => {
      const path = join(folder, 'full.gguf');
      symlinkSync('/dev/full', `${path}.part`);
      await expect(writeGguf(small, path)).rejects.toThrow('the disk has no room');
      expect(readdirSync(folder).filter((name) => name.startsWith('full'))).toEqual([]);
    },
  );

  it('a failure leaves the file that was there', async () => {
    const path = join(folder, 'kept.gguf');
    writeFileSync(path, 'old');
    const file = ggufOf([], [{ name: 'v', type: 'F32', shape: [3] }]);
    const broken: GgufFile = {
      ...file,
      weights: {
        ...file.weights,
        readRows() {
          throw new Error('unreadable weights');
        },
      },
    };
    await expect(writeGguf(broken, path)).rejects.toThrow('unreadable weights');
    expect(readFileSync(path, 'utf8')).toBe('old');
    expect(readdirSync(folder).filter((name) => name.startsWith('kept'))).toEqual(['kept.gguf']);
  });

  it('a missing folder and a folder in the place of the file are named', async () => {
    await expect(writeGguf(small, join(folder, 'missing', 'x.gguf'))).rejects.toThrow(
      'the folder does not exist',
    );
    await expect(writeGguf(small, folder)).rejects.toThrow('is a folder');
  });

  it('types of other formats are refused', async () => {
    const file = {
      ...small,
      weights: {
        ...small.weights,
        tensors: new Map([['m', { name: 'm', type: 'MLX4_G32', shape: [2, 32] } as const]]),
      },
    };
    await expect(writeGguf(file, join(folder, 'mlx.gguf'))).rejects.toThrow(
      'm: has the type MLX4_G32, which GGUF does not know',
    );
  });
});
