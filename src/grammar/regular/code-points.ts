// Sets of characters as sorted, disjoint ranges of code points, without surrogates; and their UTF-8.

import type { CharacterRange } from '../expression.ts';

export type CodePoints = readonly CharacterRange[];

const LAST_CODE_POINT = 0x10ffff;
const SURROGATES: CharacterRange = [0xd800, 0xdfff];

export const everyCodePoint: CodePoints = [
  [0, SURROGATES[0] - 1],
  [SURROGATES[1] + 1, LAST_CODE_POINT],
];

export function codePoints(ranges: readonly CharacterRange[]): CodePoints {
  return intersect(joined(ranges), everyCodePoint);
}

/** Of `\w`. */
export const wordCharacters = codePoints([
  [0x30, 0x39],
  [0x41, 0x5a],
  [0x5f, 0x5f],
  [0x61, 0x7a],
]);

export function single(codePoint: number): CodePoints {
  return codePoints([[codePoint, codePoint]]);
}

export function union(...sets: readonly CodePoints[]): CodePoints {
  return joined(sets.flat());
}

export function intersect(a: CodePoints, b: CodePoints): CodePoints {
  const result: CharacterRange[] = [];
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    const [firstA, lastA] = a[i] as CharacterRange;
    const [firstB, lastB] = b[j] as CharacterRange;
    const first = Math.max(firstA, firstB);
    const last = Math.min(lastA, lastB);
    if (first <= last) result.push([first, last]);
    if (lastA < lastB) i++;
    else j++;
  }
  return result;
}

export function without(a: CodePoints, b: CodePoints): CodePoints {
  return intersect(a, complement(b));
}

export function complement(set: CodePoints): CodePoints {
  const result: CharacterRange[] = [];
  let next = 0;
  for (const [first, last] of set) {
    if (first > next) result.push([next, first - 1]);
    next = last + 1;
  }
  if (next <= LAST_CODE_POINT) result.push([next, LAST_CODE_POINT]);
  return intersect(result, everyCodePoint);
}

function joined(ranges: readonly CharacterRange[]): CodePoints {
  const sorted = [...ranges].sort((a, b) => a[0] - b[0]);
  const result: [number, number][] = [];
  for (const [first, last] of sorted) {
    const before = result.at(-1);
    if (before !== undefined && first <= before[1] + 1) before[1] = Math.max(before[1], last);
    else if (first <= last) result.push([first, last]);
  }
  return result;
}

/**
 * The coarsest partition of all characters that no set cuts: `starts[i]` begins an interval of class `classes[i]`;
 * `parts[class]` is the class as a set. Characters in no set share a class.
 */
export interface Partition {
  readonly starts: readonly number[];
  readonly classes: readonly number[];
  readonly parts: readonly CodePoints[];
}

export function partition(sets: readonly CodePoints[]): Partition {
  const borders = new Map<number, number[]>([[0, []]]);
  const mark = (at: number, set: number) => {
    const there = borders.get(at);
    if (there === undefined) borders.set(at, [set]);
    else there.push(set);
  };
  for (const [at, set] of [everyCodePoint, ...sets].entries()) {
    for (const [first, last] of set) {
      mark(first, at);
      mark(last + 1, at);
    }
  }
  const inside = new Set<number>();
  const names = new Map<string, number>();
  const parts: CharacterRange[][] = [];
  const starts: number[] = [];
  const classes: number[] = [];
  const sorted = [...borders].sort(([a], [b]) => a - b);
  for (const [index, [start, toggled]] of sorted.entries()) {
    for (const set of toggled) if (!inside.delete(set)) inside.add(set);
    // Surrogates belong to no class.
    if (!inside.has(0) || start > LAST_CODE_POINT) {
      starts.push(start);
      classes.push(-1);
      continue;
    }
    const name = [...inside].sort((a, b) => a - b).join();
    const known = names.get(name);
    const own = known ?? parts.length;
    if (known === undefined) {
      names.set(name, own);
      parts.push([]);
    }
    const end = sorted[index + 1]?.[0] ?? LAST_CODE_POINT + 1;
    (parts[own] as CharacterRange[]).push([start, end - 1]);
    starts.push(start);
    classes.push(own);
  }
  return { starts, classes, parts };
}

/** The set must be one of those the partition was made for. */
export function classesOf({ starts, classes }: Partition, set: CodePoints): number[] {
  const found = new Set<number>();
  let at = 0;
  for (const [first, last] of set) {
    while ((starts[at + 1] ?? Number.POSITIVE_INFINITY) <= first) at++;
    for (let i = at; (starts[i] ?? Number.POSITIVE_INFINITY) <= last; i++) {
      const own = classes[i] as number;
      if (own >= 0) found.add(own);
    }
  }
  return [...found];
}

type ByteRange = readonly [first: number, last: number];

/** Last code points of one, two, three and four bytes. */
const lengths = [0x7f, 0x7ff, 0xffff, 0x10ffff] as const;

/** Half a surrogate pair has no UTF-8. */
export function hasHalves(text: string): boolean {
  return /\p{Surrogate}/u.test(text);
}

/** The byte ranges of all characters of the range. */
export function utf8Sequences(first: number, last: number): ByteRange[][] {
  const result: ByteRange[][] = [];
  let from = first;
  for (const [extra, limit] of lengths.entries()) {
    if (from > last) break;
    if (from > limit) continue;
    result.push(...split(from, Math.min(last, limit), extra));
    from = limit + 1;
  }
  return result;
}

/** Splits where leading bytes differ, until every following byte has one range. */
function split(first: number, last: number, extra: number): ByteRange[][] {
  for (let bits = 6 * extra; bits > 0; bits -= 6) {
    const low = 2 ** bits - 1;
    const sameLead = Math.floor(first / 2 ** bits) === Math.floor(last / 2 ** bits);
    if (sameLead) continue;
    if ((first & low) !== 0)
      return [...split(first, first | low, extra), ...split((first | low) + 1, last, extra)];
    if ((last & low) !== low)
      return [...split(first, (last & ~low) - 1, extra), ...split(last & ~low, last, extra)];
    break;
  }
  const [a, b] = [bytesOf(first, extra), bytesOf(last, extra)];
  return [a.map((byte, at) => [byte, b[at] as number] as const)];
}

function bytesOf(codePoint: number, extra: number): number[] {
  if (extra === 0) return [codePoint];
  const bytes: number[] = [];
  for (let at = extra; at > 0; at--) bytes.push(0x80 | ((codePoint >>> (6 * (at - 1))) & 0x3f));
  const lead = [0, 0xc0, 0xe0, 0xf0][extra] as number;
  return [lead | (codePoint >>> (6 * extra)), ...bytes];
}
