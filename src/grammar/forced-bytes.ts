// The text that must come next, as far as the grammar leaves no choice.

import type { Place, Places } from './places.ts';

/** At most so many bytes. */
export function forcedBytes(places: Places, from: Place, most: number): Uint8Array {
  const bytes: number[] = [];
  let place: Place | null = from;
  while (bytes.length < most && place !== null && !place.complete) {
    const byte = places.onlyByte(place);
    if (byte === undefined) break;
    place = places.next(place, byte);
    if (place !== null) bytes.push(byte);
  }
  return Uint8Array.from(bytes);
}
