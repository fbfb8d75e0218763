// The bytes of a model file besides its weights. A sparse copy of these bytes alone opens like the file itself.

import { type FileReader, openFile } from './file-reader.ts';
import { tensorsOfPart } from './gguf.ts';
import { dataStartOf } from './safetensors.ts';
import { columnsOf, rowsOf, type TensorInfo } from './weight-source.ts';

/** The end is excluded. */
export type Span = readonly [start: number, end: number];

/** Smaller files are taken whole: they may be part of the description, such as pooling layers. */
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

/** RoPE factors are part of the description. They are float32. */
function isDescription({ name }: TensorInfo): boolean {
  return /^rope_\w+\.weight$/.test(name);
}

function spanOf(tensor: TensorInfo & { readonly offset: number }): Span {
  return [tensor.offset, tensor.offset + 4 * rowsOf(tensor) * columnsOf(tensor)];
}
