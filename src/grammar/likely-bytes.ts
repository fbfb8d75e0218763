// The text that must come next, and, where only white space is open, the usual one.

import type { ParserState, ParserStates } from './parser-states.ts';

const [SPACE, COMMA, COLON] = [0x20, 0x2c, 0x3a];
/** Ends a value of free length: a string, then numbers between others. */
const ENDS = [0x22, COMMA, 0x7d, 0x5d] as const;

interface LikelyBytes {
  readonly bytes: Uint8Array;
  /** How many of the first are forced. */
  readonly forced: number;
}

/** `last`: the byte before them, where there is one. */
export function likelyBytes(
  parserStates: ParserStates,
  from: ParserState,
  last: number | undefined,
  most: number,
): LikelyBytes {
  const bytes: number[] = [];
  let forced = 0;
  let isForced = true;
  for (let parserState: ParserState | null = from; bytes.length < most && !parserState.complete; ) {
    const only = parserStates.onlyByte(parserState);
    isForced &&= only !== undefined;
    const byte = only ?? usualByte(parserStates, parserState, bytes.at(-1) ?? last);
    if (byte === undefined) break;
    parserState = parserStates.next(parserState, byte);
    if (parserState === null) break;
    bytes.push(byte);
    if (isForced) forced = bytes.length;
  }
  return { bytes: Uint8Array.from(bytes), forced };
}

/** The end of the current value and what must follow it; empty where nothing must. */
export function endingBytes(parserStates: ParserStates, from: ParserState, most: number): Uint8Array {
  for (const end of ENDS) {
    const parserState = parserStates.next(from, end);
    if (parserState === null) continue;
    const { bytes } = likelyBytes(parserStates, parserState, end, most - 1);
    return bytes.length === 0 ? bytes : Uint8Array.from([end, ...bytes]);
  }
  return new Uint8Array(0);
}

/** As most models write JSON: a space after colons and commas, none elsewhere. */
function usualByte(
  parserStates: ParserStates,
  parserState: ParserState,
  last: number | undefined,
): number | undefined {
  const byte = parserStates.onlyByte(parserState, true);
  if (byte === undefined) return undefined;
  const isGap = last === COLON || last === COMMA;
  return isGap && parserStates.next(parserState, SPACE) !== null ? SPACE : byte;
}
