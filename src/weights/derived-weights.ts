// Tensors that a safetensors model holds in parts, such as codes and scales: assembled while rows are read, and
// listed in place of their parts.

import { ModelFileError, printable } from './model-file-error.ts';
import { dequantize } from './quants/dequantize.ts';
import { floatType, floatWeights, type Safetensors, type SafetensorsEntry } from './safetensors.ts';
import { checkDestination, checkRows } from './stored-weights.ts';
import { rowBytes } from './tensor-type.ts';
import { columnsOf, type TensorInfo, type WeightSource } from './weight-source.ts';

export interface DerivedTensor extends TensorInfo {
  readonly parts: readonly SafetensorsEntry[];
  /** Fills `into` with rows `first … first + count - 1`. */
  readonly fill: (first: number, count: number, into: Uint8Array) => void;
}

// Small buffers, so that loading needs no second copy of a tensor.
const PIECE_BYTES = 2 ** 20;

/** Float tensors and derived ones; their parts are not listed. */
export function derivedWeights(model: Safetensors, derived: readonly DerivedTensor[]): WeightSource {
  const plain = floatWeights(model);
  const tensors = new Map<string, TensorInfo>(plain.tensors);
  const byName = new Map(derived.map((tensor) => [tensor.name, tensor]));
  for (const { parts } of derived) for (const { name } of parts) tensors.delete(name);
  for (const tensor of derived) tensors.set(tensor.name, tensor);
  return {
    tensors,
    readRows(name, first, count, into) {
      const tensor = byName.get(name);
      if (tensor === undefined) plain.readRows(name, first, count, into);
      else readPieces(tensor, first, count, into);
    },
    close: plain.close,
  };
}

/** Derives a tensor for each entry with the suffix; `module` is the name before it. */
export function derivedBySuffix(
  model: Safetensors,
  suffix: string,
  derive: (entry: SafetensorsEntry, module: string) => DerivedTensor,
): WeightSource {
  const entries = [...model.entries.values()].filter(({ name }) => name.endsWith(suffix));
  return derivedWeights(
    model,
    entries.map((entry) => derive(entry, entry.name.slice(0, -suffix.length))),
  );
}

function readPieces(tensor: DerivedTensor, first: number, count: number, into: Uint8Array): void {
  const bytesPerRow = rowBytes(tensor.type, columnsOf(tensor));
  checkRows(tensor, tensor.parts[0]?.file.path ?? tensor.name, first, count);
  checkDestination(tensor, count * bytesPerRow, into);
  const rowsPerPiece = Math.max(1, Math.floor(PIECE_BYTES / bytesPerRow));
  for (let done = 0; done < count; done += rowsPerPiece) {
    const rows = Math.min(rowsPerPiece, count - done);
    tensor.fill(first + done, rows, into.subarray(done * bytesPerRow, (done + rows) * bytesPerRow));
  }
}

export function requirePart(model: Safetensors, name: string, other: SafetensorsEntry): SafetensorsEntry {
  const entry = model.entries.get(name);
  if (entry !== undefined) return entry;
  throw new ModelFileError({
    file: model.path,
    field: name,
    problem: `is missing beside ${printable(other.name)}`,
    remedy:
      'The model is incomplete, or quantized in a way that is not known: download the whole model again.',
  });
}

export function requireDtype(part: SafetensorsEntry, dtype: string): void {
  if (part.dtype === dtype) return;
  throw partFault(part, `has the dtype ${printable(part.dtype)} where ${dtype} is expected`);
}

export function requireFloats(part: SafetensorsEntry): void {
  if (floatType(part.dtype) === undefined) {
    throw partFault(part, `has the dtype ${printable(part.dtype)}, not a float`);
  }
}

export function requireShape(part: SafetensorsEntry, shape: readonly number[], needs: string): void {
  if (part.shape.length === shape.length && part.shape.every((size, i) => size === shape[i])) return;
  const [actual, wanted] = [part.shape.slice(0, 8).join(', '), shape.join(', ')];
  throw partFault(part, `has the shape [${actual}] where ${needs} needs [${wanted}]`);
}

export function partFault(part: SafetensorsEntry, problem: string): ModelFileError {
  const remedy = 'Weights and config.json do not fit each other: download the whole model again.';
  return new ModelFileError({ file: part.file.path, field: part.name, problem, remedy });
}

export function readPart(
  part: SafetensorsEntry,
  bytesPerValue: number,
  first: number,
  count: number,
): Buffer {
  return part.file.readAt(part.offset + first * bytesPerValue, count * bytesPerValue, part.name);
}

export function readFloatPart(part: SafetensorsEntry, first: number, count: number): Float32Array {
  const type = floatType(part.dtype) ?? 'F32';
  const values = new Float32Array(count);
  dequantize(type, readPart(part, rowBytes(type, 1), first, count), values);
  return values;
}

/** A matrix of words, read a few columns at a time: formats that pack inputs into rows keep our rows in columns. */
export interface WordMatrix {
  /** Columns `first … first + count - 1`, row by row. */
  readonly rows: (first: number, count: number) => Int32Array;
  /** The same column by column. */
  readonly columns: (first: number, count: number) => Int32Array;
}

// A few words per row take a call each: parts up to this size are read whole.
const WHOLE_BYTES = 256 * 2 ** 20;

export interface PackedParts {
  readonly codes: WordMatrix;
  readonly zeros: WordMatrix;
  readonly scales: SafetensorsEntry;
}

/** The zeros and scales that go with int32 codes. */
export function partsOfCodes(model: Safetensors, codes: SafetensorsEntry, module: string) {
  const zeros = requirePart(model, `${module}.qzeros`, codes);
  const scales = requirePart(model, `${module}.scales`, codes);
  for (const part of [codes, zeros]) requireDtype(part, 'I32');
  requireFloats(scales);
  return { zeros, scales };
}

export function wordMatrix(part: SafetensorsEntry): WordMatrix {
  const [rows = 0, width = 0] = part.shape;
  // Rows are requested in sequence; the last read is reused unless memory is short.
  let whole: WeakRef<Int32Array> | undefined;
  const read = (first: number, count: number) => {
    if (part.bytes > WHOLE_BYTES)
      return { words: wordsOf(readColumns(part, 4, first, count)), stride: count, at: 0 };
    const words = whole?.deref() ?? wordsOf(readPart(part, 4, 0, rows * width));
    whole = new WeakRef(words);
    return { words, stride: width, at: first };
  };
  return {
    rows(first, count) {
      const { words, stride, at } = read(first, count);
      const window = new Int32Array(rows * count);
      for (let row = 0; row < rows; row++) {
        window.set(words.subarray(row * stride + at, row * stride + at + count), row * count);
      }
      return window;
    },
    columns(first, count) {
      const { words, stride, at } = read(first, count);
      const turned = new Int32Array(rows * count);
      // By cache lines, so that none is read twice.
      for (let start = 0; start < count; start += LINE_WORDS) {
        const end = Math.min(start + LINE_WORDS, count);
        for (let row = 0; row < rows; row++) {
          const from = row * stride + at;
          for (let column = start; column < end; column++) {
            turned[column * rows + row] = words[from + column] as number;
          }
        }
      }
      return turned;
    },
  };
}

const LINE_WORDS = 16;

function wordsOf({ buffer, byteOffset, length }: Uint8Array): Int32Array {
  return new Int32Array(buffer, byteOffset, length / 4);
}

/** Row by row; reads only those bytes. */
function readColumns(
  part: SafetensorsEntry,
  bytesPerValue: number,
  first: number,
  count: number,
): Uint8Array {
  const [rows = 0, columns = 0] = part.shape;
  const length = count * bytesPerValue;
  const bytes = new Uint8Array(rows * length);
  for (let row = 0; row < rows; row++) {
    const from = part.offset + (row * columns + first) * bytesPerValue;
    part.file.readInto(from, bytes.subarray(row * length, (row + 1) * length), part.name);
  }
  return bytes;
}

export function readScales(part: SafetensorsEntry, first: number, count: number): Float32Array {
  const type = floatType(part.dtype) ?? 'F32';
  const [rows = 0] = part.shape;
  const values = new Float32Array(rows * count);
  dequantize(type, readColumns(part, rowBytes(type, 1), first, count), values);
  const turned = new Float32Array(values.length);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < count; column++) {
      turned[column * rows + row] = values[row * count + column] as number;
    }
  }
  return turned;
}
