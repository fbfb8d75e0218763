// Models that were trained to read two texts at once add another vector to the tokens of the second. Here these are tokens of
// their own: ids of the second text are above those of the first, and the table of embeddings has the vector in it, so that
// no backend knows of two texts.

import { rowBytes } from '../weights/tensor-type.ts';
import { readFloatRows, type TensorInfo, type WeightSource } from '../weights/weight-source.ts';
import type { ModelSpec } from './spec.ts';

const suffix = ' of both texts';

export function hasSecondTexts({ embedding }: ModelSpec): boolean {
  return embedding.tensor.endsWith(suffix);
}

/** Doubles the vocabulary of a model with vectors for two kinds of text; others are left as they are. */
export function withSecondTexts(
  spec: ModelSpec,
  weights: WeightSource,
): { readonly spec: ModelSpec; readonly weights: WeightSource } {
  const { embedding, textKinds, vocabSize, hiddenSize, head } = spec;
  if (textKinds === undefined || textKinds.rows < 2 || spec.headless !== true) return { spec, weights };
  const name = `${embedding.tensor}${suffix}`;
  const table: TensorInfo = { name, type: 'F32', shape: [2 * vocabSize, hiddenSize] };
  const [first, second] = [0, 1].map((kind) =>
    readFloatRows(weights, textKinds.tensor, textKinds.firstRow + kind, 1),
  ) as [Float32Array, Float32Array];
  const added = second.map((value, at) => value - (first[at] as number));

  /** Rows of one of the two halves. */
  const readHalf = (row: number, count: number, isSecond: boolean, into: Float32Array) => {
    const own = row - (isSecond ? vocabSize : 0);
    into.set(readFloatRows(weights, embedding.tensor, embedding.firstRow + own, count));
    if (isSecond)
      for (let at = 0; at < into.length; at++)
        into[at] = (into[at] as number) + (added[at % hiddenSize] as number);
  };
  const source: WeightSource = {
    tensors: new Map([...weights.tensors, [name, table]]),
    readRows(asked, row, count, into) {
      if (asked !== name) return weights.readRows(asked, row, count, into);
      if (row < 0 || row + count > 2 * vocabSize || into.length !== count * rowBytes('F32', hiddenSize)) {
        throw new RangeError(`${name} has no ${count} rows from ${row} on`);
      }
      const floats = new Float32Array(count * hiddenSize);
      const before = Math.max(0, Math.min(count, vocabSize - row));
      if (before > 0) readHalf(row, before, false, floats.subarray(0, before * hiddenSize));
      if (before < count) readHalf(row + before, count - before, true, floats.subarray(before * hiddenSize));
      into.set(new Uint8Array(floats.buffer));
    },
    close: () => weights.close(),
  };
  const rows = 2 * vocabSize;
  return {
    weights: source,
    spec: {
      ...spec,
      vocabSize: rows,
      embedding: { ...embedding, tensor: name, firstRow: 0, rows },
      head: { ...head, weight: { ...head.weight, tensor: name, firstRow: 0, rows } },
    },
  };
}
