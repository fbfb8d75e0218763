// Tensors stored as they are: checks their byte ranges and reads their rows.

import type { FileReader } from './file-reader.ts';
import { ModelFileError, printable } from './model-file-error.ts';
import { rowBytes } from './tensor-type.ts';
import { columnsOf, rowsOf, type TensorInfo, type WeightSource } from './weight-source.ts';

export interface StoredTensor extends TensorInfo {
  readonly file: FileReader;
  /** From the start of the file. */
  readonly offset: number;
}

interface ByteSpan {
  readonly name: string;
  readonly start: number;
  readonly end: number;
}

/** `explain` gives the error about an unknown tensor; by default it names `path`. */
export function storedWeights(
  path: string,
  tensors: ReadonlyMap<string, StoredTensor>,
  files: readonly FileReader[],
  explain?: (name: string) => ModelFileError | undefined,
): WeightSource {
  return {
    tensors,
    readRows(name, first, count, into) {
      const tensor = tensors.get(name);
      if (tensor === undefined) throw explain?.(name) ?? missingTensor(path, name);
      const bytesPerRow = rowBytes(tensor.type, columnsOf(tensor));
      checkRows(tensor, tensor.file.path, first, count);
      checkDestination(tensor, count * bytesPerRow, into);
      tensor.file.readInto(tensor.offset + first * bytesPerRow, into, name);
    },
    close() {
      for (const file of files) file.close();
    },
  };
}

function missingTensor(path: string, name: string): ModelFileError {
  return new ModelFileError({
    file: path,
    field: name,
    problem: 'the model has no tensor of this name',
    remedy: 'The model is incomplete or of another architecture: download or convert it again.',
  });
}

export function checkRows(tensor: TensorInfo, path: string, first: number, count: number): void {
  const rows = rowsOf(tensor);
  const whole = Number.isSafeInteger(first) && Number.isSafeInteger(count);
  if (whole && first >= 0 && count >= 0 && first + count <= rows) return;
  throw new ModelFileError({
    file: path,
    field: tensor.name,
    problem: `rows ${first} to ${first + count - 1} are needed, but the tensor has ${rows}`,
    remedy: 'The model’s settings do not fit its weights: download or convert it again.',
  });
}

export function checkDestination(tensor: TensorInfo, bytes: number, into: Uint8Array): void {
  if (into.length === bytes) return;
  throw new RangeError(`${tensor.name}: the rows take ${bytes} bytes, the destination holds ${into.length}`);
}

/** No writer lets tensors share bytes, so one of the offsets is wrong. */
export function refuseOverlap(path: string, spans: readonly ByteSpan[]): void {
  const sorted = spans.filter((span) => span.end > span.start).sort((a, b) => a.start - b.start);
  for (const [index, span] of sorted.entries()) {
    const next = sorted[index + 1];
    if (next === undefined || next.start >= span.end) continue;
    throw new ModelFileError({
      file: path,
      field: next.name,
      problem: `its bytes from ${next.start} on overlap those of ${printable(span.name)}`,
      remedy: 'The file is damaged: download or convert it again.',
    });
  }
}
