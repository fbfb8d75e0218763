// What the threads of a backend did in some steps: loops, and the pieces that each thread took of them.

import type { NativeTimeline } from '#src/compute/cpu/binding.ts';

/** In microseconds since the recording began. */
export interface Span {
  readonly beginUs: number;
  readonly endUs: number;
}

export interface Loop extends Span {
  readonly operation: string;
  /** Weights by the names of the model's file; empty for others. */
  readonly subject: string;
  /** Of weights, read once by all threads together. */
  readonly bytes: number;
  /** By thread, the calling one first; in order. */
  readonly pieces: readonly (readonly Span[])[];
}

export interface Timeline {
  readonly steps: readonly Span[];
  /** In order; none overlaps another. */
  readonly loops: readonly Loop[];
}

const LOOP_NUMBERS = 5;
const PIECE_NUMBERS = 3;

/** Throws where there was no room for all: what is left would mislead. */
export function readTimeline({ texts, loops, steps, pieces, dropped }: NativeTimeline): Timeline {
  if (dropped > 0) throw new Error(`the timeline had no room for ${dropped} loops and pieces`);
  const count = loops.length / LOOP_NUMBERS;
  const all = Array.from({ length: count }, () => pieces.map((): Span[] => []));
  for (const [thread, numbers] of pieces.entries()) {
    for (const [loop, beginUs, endUs] of rowsOf(numbers, PIECE_NUMBERS)) {
      all[loop as number]?.[thread]?.push({ beginUs: beginUs as number, endUs: endUs as number });
    }
  }
  return {
    steps: rowsOf(steps, 2).map(([beginUs, endUs]) => ({
      beginUs: beginUs as number,
      endUs: endUs as number,
    })),
    loops: rowsOf(loops, LOOP_NUMBERS).map(([operation, subject, bytes, beginUs, endUs], place) => ({
      operation: texts[operation as number] as string,
      subject: texts[subject as number] as string,
      bytes: bytes as number,
      beginUs: beginUs as number,
      endUs: endUs as number,
      pieces: all[place] as Span[][],
    })),
  };
}

function rowsOf(numbers: Float64Array, length: number): number[][] {
  return Array.from({ length: numbers.length / length }, (_, row) => [
    ...numbers.subarray(row * length, (row + 1) * length),
  ]);
}

/** `blk.N.{attn_q,attn_k}.weight`: the same for all layers. */
export function kindOf({ operation, subject }: Loop): string {
  if (subject === '') return operation;
  const names = subject.split(' + ').map((name) => name.replaceAll(/(?<=\.)\d+(?=\.)/g, 'N').split('.'));
  const [first = []] = names;
  const parts = first.map((part, place) => {
    const others = new Set(names.map((name) => name[place] ?? ''));
    return others.size === 1 ? part : `{${[...others].join(',')}}`;
  });
  return `${operation} ${parts.join('.')}`;
}
