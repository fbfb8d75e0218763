// Columns of a matrix in a safetensors file. Formats that pack inputs into rows of a file keep a row of ours in a column.

import { readPart } from './derived-weights.ts';
import { dequantize } from './quants/dequantize.ts';
import { floatType, type SafetensorsEntry } from './safetensors.ts';
import { rowBytes } from './tensor-type.ts';

/** The words of a part with two dimensions, of which columns are asked for a few at a time. */
export interface WordMatrix {
  /** Columns `first … first + count - 1`, row by row. */
  readonly rows: (first: number, count: number) => Int32Array;
  /** The same column by column. */
  readonly columns: (first: number, count: number) => Int32Array;
}

// Reading a few words of every row takes a call a row: parts up to this size are read whole.
const WHOLE_BYTES = 256 * 2 ** 20;

export function wordMatrix(part: SafetensorsEntry): WordMatrix {
  const [rows = 0, width = 0] = part.shape;
  // Readers ask for one tensor's rows after the other. What was read for the last ones is still there, unless memory is short.
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
      // A line of memory of every row, so that none is read twice.
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

/** Columns `first … first + count - 1` of a part with two dimensions, row by row. Reads only those bytes. */
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

/** Of columns of a float part: each column's values, one after the other. */
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
