// The text that comes next: what a grammar leaves no choice about, and, where only white space is left open, what is usual.

import type { Place, Places } from './places.ts';

const [SPACE, COMMA, COLON] = [0x20, 0x2c, 0x3a];
/** What ends a value whose length is free: a text, then numbers between others. */
const ENDS = [0x22, COMMA, 0x7d, 0x5d] as const;

interface LikelyBytes {
  readonly bytes: Uint8Array;
  /** So many of the first leave no choice. */
  readonly forced: number;
}

/** At most so many bytes. `last`: the byte before them, where there is one. */
export function likelyBytes(
  places: Places,
  from: Place,
  last: number | undefined,
  most: number,
): LikelyBytes {
  const bytes: number[] = [];
  let forced = 0;
  let isForced = true;
  for (let place: Place | null = from; bytes.length < most && !place.complete; ) {
    const only = places.onlyByte(place);
    isForced &&= only !== undefined;
    const byte = only ?? usualByte(places, place, bytes.at(-1) ?? last);
    if (byte === undefined) break;
    place = places.next(place, byte);
    if (place === null) break;
    bytes.push(byte);
    if (isForced) forced = bytes.length;
  }
  return { bytes: Uint8Array.from(bytes), forced };
}

/** The end of the value at hand, and what follows it; nothing where nothing would have to. */
export function endingBytes(places: Places, from: Place, most: number): Uint8Array {
  for (const end of ENDS) {
    const place = places.next(from, end);
    if (place === null) continue;
    const { bytes } = likelyBytes(places, place, end, most - 1);
    return bytes.length === 0 ? bytes : Uint8Array.from([end, ...bytes]);
  }
  return new Uint8Array(0);
}

/** As most models write JSON: a space behind colons and commas, none elsewhere. */
function usualByte(places: Places, place: Place, last: number | undefined): number | undefined {
  const byte = places.onlyByte(place, true);
  if (byte === undefined) return undefined;
  const isGap = last === COLON || last === COMMA;
  return isGap && places.next(place, SPACE) !== null ? SPACE : byte;
}
