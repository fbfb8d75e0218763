// What images are to a sequence, and to the rows of it that a step computes.

import type { BatchImages, ImageFeatures } from './backend.ts';

export interface SequenceImages extends ImageFeatures {
  /** Positions of the tokens that stand for features, ascending. */
  readonly places: Int32Array;
  /** Time, row and column of each token of the prompt; those after it go on in all three. Absent: each token's position. */
  readonly rotaryPositions?: Int32Array;
  /** Tokens before this position see each other: the prompt of a prefix LM. */
  readonly prefixEnd?: number;
}

interface SequenceRows {
  readonly start: number;
  readonly count: number;
  readonly images?: SequenceImages | undefined;
}

interface BatchParts {
  readonly images?: BatchImages;
  readonly rotaryPositions?: Int32Array;
  readonly imageEnds?: Int32Array;
}

/** Of sequences whose rows follow each other; nothing where none has images. */
export function batchImages(sequences: readonly SequenceRows[]): BatchParts {
  if (sequences.every(({ images }) => images === undefined)) return {};
  const rotaryPositions = Int32Array.from(sequences.flatMap(rotaryOf));
  const imageEnds = Int32Array.from(sequences.flatMap(endsOf));
  const shown = shownRows(sequences);
  if (shown.length === 0) return { rotaryPositions, imageEnds };
  const [{ features: some }] = shown as [ShownRow];
  const hiddenSize = some.embeddings.length / some.places.length;
  const gather = (valuesOf: (features: ImageFeatures) => Float32Array | undefined): Float32Array => {
    const gathered = new Float32Array(shown.length * hiddenSize);
    for (const [at, { features, index }] of shown.entries()) {
      const values = valuesOf(features)?.subarray(index * hiddenSize, (index + 1) * hiddenSize);
      if (values !== undefined) gathered.set(values, at * hiddenSize);
    }
    return gathered;
  };
  const layers = Math.max(...shown.map(({ features }) => features.deepstack.length));
  return {
    rotaryPositions,
    imageEnds,
    images: {
      rows: Int32Array.from(shown, ({ row }) => row),
      embeddings: gather(({ embeddings }) => embeddings),
      deepstack: Array.from({ length: layers }, (_, layer) => gather(({ deepstack }) => deepstack[layer])),
    },
  };
}

interface ShownRow {
  readonly row: number;
  readonly features: SequenceImages;
  readonly index: number;
}

function shownRows(sequences: readonly SequenceRows[]): ShownRow[] {
  const shown: ShownRow[] = [];
  let firstRow = 0;
  for (const { start, count, images } of sequences) {
    for (const [index, place] of (images?.places ?? []).entries()) {
      if (images === undefined || place < start || place >= start + count) continue;
      shown.push({ row: firstRow + place - start, features: images, index });
    }
    firstRow += count;
  }
  return shown;
}

function rotaryOf({ start, count, images }: SequenceRows): number[] {
  const given = images?.rotaryPositions ?? new Int32Array();
  const known = given.length / 3;
  // After an image positions are those of its rows and columns, of which there are fewer than tokens.
  const next = known === 0 ? 0 : (given.at(-1) as number) + 1;
  return Array.from({ length: count }, (_, row) => start + row).flatMap((position) =>
    position < known
      ? [...given.subarray(3 * position, 3 * position + 3)]
      : Array(3).fill(next + position - known),
  );
}

function endsOf({ start, count, images }: SequenceRows): number[] {
  const ends = Array<number>(count).fill(0);
  for (const { first, end } of imageSpans(images?.places ?? new Int32Array())) {
    ends.fill(end, Math.max(first - start, 0), Math.max(end - start, 0));
  }
  const { prefixEnd = 0 } = images ?? {};
  ends.fill(prefixEnd, 0, Math.max(prefixEnd - start, 0));
  return ends;
}

interface Span {
  readonly first: number;
  readonly end: number;
}

/** Runs of tokens that stand for features. */
export function imageSpans(places: Int32Array): Span[] {
  const spans: Span[] = [];
  for (const place of places) {
    const last = spans.at(-1);
    if (last?.end === place) spans[spans.length - 1] = { first: last.first, end: place + 1 };
    else spans.push({ first: place, end: place + 1 });
  }
  return spans;
}
