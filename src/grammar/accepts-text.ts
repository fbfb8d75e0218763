// Whether a grammar allows a text, and where not: byte by byte, without a vocabulary.

import { Places } from './places.ts';
import type { GrammarTables } from './tables.ts';

export type TextVerdict =
  | { readonly accepted: true }
  /** `at`: how many bytes fit. `ended` where the text ends too early. */
  | { readonly accepted: false; readonly at: number; readonly ended: boolean };

export function acceptsText(tables: GrammarTables, text: string | Uint8Array): TextVerdict {
  const bytes = typeof text === 'string' ? new TextEncoder().encode(text) : text;
  let places = new Places(tables);
  let place = places.start;
  for (const [at, byte] of bytes.entries()) {
    const next = places.next(place, byte);
    if (next === null) return { accepted: false, at, ended: false };
    place = next;
    if (!places.full) continue;
    places = new Places(tables);
    place = places.adopt(place);
  }
  return place.complete ? { accepted: true } : { accepted: false, at: bytes.length, ended: true };
}
