// Which bytes of a model's file say what the model is, and how it reads and writes text: all but its weights. A copy of those
// bytes alone, in a file of the same size, opens like the file itself.

import { type FileReader, openFile } from './file-reader.ts';
import { tensorsOfPart } from './gguf.ts';
import { dataStartOf } from './safetensors.ts';
import { columnsOf, rowsOf, type TensorInfo } from './weight-source.ts';

/** From the first byte up to the one behind the last. */
export type Span = readonly [start: number, end: number];

/** Files up to this size are taken whole: what is small may be part of the description, such as maps behind pooling. */
const SMALL_BYTES = 1 << 20;

export function descriptionSpans(path: string): Span[] {
  const file = openFile(path);
  try {
    if (file.size <= SMALL_BYTES) return [[0, file.size]];
    if (path.endsWith('.gguf')) return ggufSpans(file);
    if (path.endsWith('.safetensors')) return [[0, dataStartOf(file)]];
    return [[0, file.size]];
  } finally {
    file.close();
  }
}

function ggufSpans(file: FileReader): Span[] {
  const tensors = [...tensorsOfPart(file).values()];
  const dataStart = Math.min(file.size, ...tensors.map(({ offset }) => offset));
  return [[0, dataStart], ...tensors.filter(isDescription).map((one): Span => spanOf(one))];
}

/** Factors of positions are part of the description. They are floats. */
function isDescription({ name }: TensorInfo): boolean {
  return /^rope_\w+\.weight$/.test(name);
}

function spanOf(tensor: TensorInfo & { readonly offset: number }): Span {
  return [tensor.offset, tensor.offset + 4 * rowsOf(tensor) * columnsOf(tensor)];
}
