// Writes a model as one GGUF file, version 3, a few megabytes at a time. The bytes gather under a temporary name beside
// the file, which appears only when it is whole.

import { statSync } from 'node:fs';
import { type FileHandle, open, rename, rm, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { GgufFile } from '../weights/gguf.ts';
import { ARRAY_TYPE, type GgufValue, numericArrays, STRING_TYPE } from '../weights/gguf-metadata.ts';
import { supportedTypes } from '../weights/gguf-tensors.ts';
import { ModelFileError } from '../weights/model-file-error.ts';
import { rowBytes, type TensorType } from '../weights/tensor-type.ts';
import { columnsOf, rowsOf, type TensorInfo } from '../weights/weight-source.ts';

const VERSION = 3;
const DEFAULT_ALIGNMENT = 32;
const PIECE_BYTES = 8 * 2 ** 20;
const PART = '.part';

/** Keys whose values are real numbers also where they happen to be whole: readers insist on the type. */
const realKeys =
  /(epsilon|freq_base(_swa)?|scale|scale_linear|scaling\.(factor|attn_factor)|yarn_\w+|softcapping)$/;

const typeNumbers: ReadonlyMap<TensorType, number> = new Map(
  [...supportedTypes].map(([number, type]) => [type, number]),
);

interface Layout {
  readonly header: Buffer;
  readonly alignment: number;
  readonly tensors: readonly TensorInfo[];
  readonly totalBytes: number;
}

/** Gives the size of the file. `onProgress` is called with the share that is written, 0 to 1. */
export async function writeGguf(
  file: GgufFile,
  path: string,
  onProgress: (share: number) => void = () => {},
): Promise<number> {
  const layout = layOut(file, path);
  const part = path + PART;
  try {
    await requireRoom(path, layout.totalBytes);
    const handle = await open(part, 'w');
    try {
      await writeAll(handle, file, layout, onProgress);
    } finally {
      await handle.close();
    }
    await rename(part, path);
  } catch (error) {
    await rm(part, { force: true });
    throw unwritable(path, layout.totalBytes, error);
  }
  return layout.totalBytes;
}

async function writeAll(
  handle: FileHandle,
  { weights }: GgufFile,
  { header, alignment, tensors, totalBytes }: Layout,
  onProgress: (share: number) => void,
): Promise<void> {
  let written = 0;
  const write = async (bytes: Uint8Array): Promise<void> => {
    await handle.appendFile(bytes);
    written += bytes.length;
    onProgress(written / totalBytes);
  };
  await write(header);
  for (const tensor of tensors) {
    const bytesPerRow = rowBytes(tensor.type, columnsOf(tensor));
    const rows = rowsOf(tensor);
    const rowsPerPiece = Math.max(1, Math.floor(PIECE_BYTES / bytesPerRow));
    for (let first = 0; first < rows; first += rowsPerPiece) {
      const count = Math.min(rowsPerPiece, rows - first);
      const piece = new Uint8Array(count * bytesPerRow);
      weights.readRows(tensor.name, first, count, piece);
      await write(piece);
    }
    await write(new Uint8Array(padding(written, alignment)));
  }
  await handle.sync();
}

function layOut({ metadata, weights }: GgufFile, path: string): Layout {
  // A model of several files becomes one.
  const entries = [...metadata].filter(([key]) => !key.startsWith('split.'));
  const alignment = Number(metadata.get('general.alignment') ?? DEFAULT_ALIGNMENT);
  const tensors = [...weights.tensors.values()];
  const pieces = [
    Buffer.from('GGUF'),
    uint32(VERSION),
    uint64(tensors.length),
    uint64(entries.length),
    ...entries.flatMap(([key, value]) => [text(key), ...encoded(key, value)]),
  ];
  let offset = 0;
  for (const tensor of tensors) {
    pieces.push(tensorEntry(tensor, offset, path));
    const bytes = rowsOf(tensor) * rowBytes(tensor.type, columnsOf(tensor));
    offset += bytes + padding(bytes, alignment);
  }
  const entryBytes = pieces.reduce((sum, { length }) => sum + length, 0);
  pieces.push(Buffer.alloc(padding(entryBytes, alignment)));
  const header = Buffer.concat(pieces);
  return { header, alignment, tensors, totalBytes: header.length + offset };
}

/** The file stores the contiguous dimension first. */
function tensorEntry({ name, type, shape }: TensorInfo, offset: number, path: string): Buffer {
  const number = typeNumbers.get(type);
  if (number === undefined) {
    throw new ModelFileError({
      file: path,
      field: name,
      problem: `has the type ${type}, which GGUF does not know`,
      remedy: `Write a model whose tensors are among ${[...typeNumbers.keys()].join(', ')}.`,
    });
  }
  return Buffer.concat([
    text(name),
    uint32(shape.length),
    ...shape.toReversed().map(uint64),
    uint32(number),
    uint64(offset),
  ]);
}

/** Its type number and its value. */
function encoded(key: string, value: GgufValue): Buffer[] {
  if (typeof value === 'string') return [uint32(STRING_TYPE), text(value)];
  if (typeof value === 'boolean') return [uint32(7), Buffer.of(Number(value))];
  if (typeof value === 'bigint') return encodedBigint(value);
  if (typeof value === 'number') return encodedNumber(key, value);
  if (!ArrayBuffer.isView(value)) {
    return [uint32(ARRAY_TYPE), uint32(STRING_TYPE), uint64(value.length), ...value.map(text)];
  }
  const type = [...numericArrays].find(([, NumericArray]) => value instanceof NumericArray)?.[0] as number;
  const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  return [uint32(ARRAY_TYPE), uint32(type), uint64(value.length), bytes];
}

/** The smallest of the usual types that holds it exactly; keys for real numbers take float32 in any case. */
function encodedNumber(key: string, value: number): Buffer[] {
  const bytes = Buffer.alloc(4);
  if (realKeys.test(key) || (!Number.isInteger(value) && Object.is(Math.fround(value), value))) {
    bytes.writeFloatLE(value);
    return [uint32(6), bytes];
  }
  if (!Number.isInteger(value)) {
    const double = Buffer.alloc(8);
    double.writeDoubleLE(value);
    return [uint32(12), double];
  }
  if (value >= 0 && value < 2 ** 32) return [uint32(4), uint32(value)];
  if (value < 0 && value >= -(2 ** 31)) {
    bytes.writeInt32LE(value);
    return [uint32(5), bytes];
  }
  return encodedBigint(BigInt(value));
}

function encodedBigint(value: bigint): Buffer[] {
  const bytes = Buffer.alloc(8);
  if (value >= 0n) bytes.writeBigUInt64LE(value);
  else bytes.writeBigInt64LE(value);
  return [uint32(value >= 0n ? 10 : 11), bytes];
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value);
  return Buffer.concat([uint64(bytes.length), bytes]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function uint64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

function padding(bytes: number, alignment: number): number {
  return (alignment - (bytes % alignment)) % alignment;
}

/** Finds out before gigabytes are written. */
async function requireRoom(path: string, bytes: number): Promise<void> {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) throw fault(path, 'is a folder');
  const { bavail, bsize } = await statfs(dirname(path));
  if (bavail * bsize < bytes) throw fullDisk(path, bytes);
}

function unwritable(path: string, bytes: number, error: unknown): unknown {
  const { code } = error as NodeJS.ErrnoException;
  if (code === undefined) return error;
  if (code === 'ENOSPC' || code === 'EDQUOT' || code === 'EFBIG') return fullDisk(path, bytes);
  if (code === 'ENOENT' || code === 'ENOTDIR') return fault(path, 'the folder does not exist');
  return fault(path, `cannot be written (${code})`);
}

function fullDisk(path: string, bytes: number): ModelFileError {
  return fault(path, `the disk has no room for the ${(bytes / 1e9).toPrecision(3)} GB of this model`);
}

function fault(file: string, problem: string): ModelFileError {
  const remedy = 'Give the path of a file in a folder that can be written, on a disk with enough room.';
  return new ModelFileError({ file, field: 'path', problem, remedy });
}
