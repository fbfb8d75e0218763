// The text that must come next, as far as the grammar leaves no choice.

import type { Place, Places } from './places.ts';

/** At most so many bytes. */
export function forcedBytes(places: Places, from: Place, most: number): Uint8Array {
  const bytes: number[] = [];
  let place: Place | null = from;
  while (bytes.length < most && place !== null && !place.complete) {
    const byte = onlyByte(places, place);
    if (byte === undefined) break;
    bytes.push(byte);
    place = places.next(place, byte);
  }
  return Uint8Array.from(bytes);
}

/** Undefined where there are several, or where a control token may come. */
function onlyByte(places: Places, place: Place): number | undefined {
  if (place.frames.some(({ state }) => places.readsTokens(state))) return undefined;
  let only: number | undefined;
  for (let byte = 0; byte < 256; byte++) {
    if (!place.frames.some(({ state }) => (places.rowOf(state)[byte] as number) >= 0)) continue;
    if (places.next(place, byte) === null) continue;
    if (only !== undefined) return undefined;
    only = byte;
  }
  return only;
}
