// Byte-pair encoding of a piece of text: symbols (bytes or characters) merge by the ranks of a merge list. Ids of
// short pieces are cached.

import { MergeLoop, PairTable } from './merge-loop.ts';
import { partsOf, STEP_SIZE, type Steps } from './steps.ts';

interface BpeModel {
  readonly ids: ReadonlyMap<string, number>;
  /** In order of rank. */
  readonly merges: Iterable<readonly [string, string]>;
  /** A piece that is a token becomes it without merging. */
  readonly ignoreMerges: boolean;
  readonly symbols: SymbolRule;
}

export type SymbolRule =
  /** UTF-8 bytes, written as `byteCharacters`. */
  | { readonly kind: 'bytes'; readonly unknownId: number | undefined }
  /** A character without a token becomes its bytes as `<0xNN>` tokens, else the unknown token. */
  | {
      readonly kind: 'characters';
      readonly byteFallback: boolean;
      readonly unknownId: number | undefined;
      readonly fuseUnknown: boolean;
    };

/** Returns the remaining steps of a long piece; others are done. */
export type PieceEncoder = (piece: string, into: number[]) => Steps | undefined;

/** In UTF-16 units. */
export const LONG_PIECE = 16_384;

export function* encodePieces(pieces: Iterable<string>, encodePiece: PieceEncoder, into: number[]): Steps {
  let units = 0;
  for (const piece of pieces) {
    const rest = encodePiece(piece, into);
    if (rest !== undefined) yield* rest;
    units += piece.length;
    if (units < STEP_SIZE) continue;
    units = 0;
    yield;
  }
}

const cachedPieceLength = 48;
const cachedPieces = 20_000;
const encoder = new TextEncoder();

export function bpeEncoder(model: BpeModel): PieceEncoder {
  const table = mergeTable(model);
  const loop = new MergeLoop(table);
  const toSymbols: (piece: string, unknown?: { before: boolean }) => Int32Array =
    model.symbols.kind === 'bytes' ? byteSymbols(model) : characterSymbols(model, model.symbols);
  const wholeToken = model.ignoreMerges ? wholeTokenLookup(model) : undefined;
  const cache = new Map<string, readonly number[]>();

  const encode = (piece: string): readonly number[] => {
    const whole = wholeToken?.(piece);
    if (whole !== undefined) return [whole];
    const symbols = toSymbols(piece);
    return Array.from(symbols.subarray(0, loop.run(symbols, symbols.length)));
  };

  /** With a loop of its own: other pieces are encoded between steps. */
  function* encodeLong(piece: string, into: number[]): Steps {
    const whole = wholeToken?.(piece);
    if (whole !== undefined) {
      into.push(whole);
      return;
    }
    const read: number[] = [];
    const unknown = { before: false };
    for (const part of partsOf(piece)) {
      for (const symbol of toSymbols(part, unknown)) read.push(symbol);
      yield;
    }
    const symbols = Int32Array.from(read);
    const count = yield* new MergeLoop(table).steps(symbols, symbols.length);
    for (let i = 0; i < count; i++) into.push(symbols[i] as number);
  }

  return (piece, into) => {
    if (piece.length > LONG_PIECE) return encodeLong(piece, into);
    let ids = cache.get(piece);
    if (ids === undefined) {
      ids = encode(piece);
      if (piece.length <= cachedPieceLength) {
        if (cache.size >= cachedPieces) cache.clear();
        cache.set(piece, ids);
      }
    }
    for (const id of ids) into.push(id);
    return undefined;
  };
}

/** Thrown while the encoder is built. */
export class MergeOutsideVocabulary extends Error {
  constructor(rank: number, text: string) {
    super(`merge ${rank} needs the token ${JSON.stringify(text)}, which the vocabulary lacks`);
    this.name = 'MergeOutsideVocabulary';
  }
}

function mergeTable(model: BpeModel): PairTable {
  const merges = Array.isArray(model.merges) ? model.merges : [...model.merges];
  const table = new PairTable(merges.length);
  let rank = 0;
  const idOf = (text: string): number => {
    const id = model.ids.get(text);
    if (id === undefined) throw new MergeOutsideVocabulary(rank, text);
    return id;
  };
  for (const [left, right] of merges) {
    table.add(idOf(left), idOf(right), rank, idOf(left + right));
    rank++;
  }
  return table;
}

function wholeTokenLookup(model: BpeModel): (piece: string) => number | undefined {
  if (model.symbols.kind === 'characters') return (piece) => model.ids.get(piece);
  const printable = /^[!-~]*$/;
  return (piece) => model.ids.get(printable.test(piece) ? piece : toByteCharacters(piece));
}

/** Bytes without a token would be dropped. */
export function spellsEveryByte(ids: ReadonlyMap<string, number>): boolean {
  return byteCharacters.every((character) => ids.has(character));
}

export function spellsEveryByteToken(ids: ReadonlyMap<string, number>): boolean {
  return byteCharacters.every((_, byte) => ids.has(byteTokenText(byte)));
}

function byteSymbols(model: BpeModel): (piece: string) => Int32Array {
  const missing = model.symbols.unknownId;
  const idOfByte = byteCharacters.map((character) => model.ids.get(character) ?? missing);
  const complete = idOfByte.every((id) => id !== undefined);
  return (piece) => {
    const bytes = encoder.encode(piece);
    const ids = Int32Array.from(bytes, (byte) => idOfByte[byte] ?? -1);
    return complete ? ids : ids.filter((id) => id !== -1);
  };
}

function characterSymbols(
  model: BpeModel,
  rule: Extract<SymbolRule, { kind: 'characters' }>,
): (piece: string, unknown?: { before: boolean }) => Int32Array {
  const fallback = rule.byteFallback ? byteTokenIds(model.ids) : undefined;
  // `unknown.before`: whether the previous part ended with an unknown character.
  return (piece, unknown) => {
    const symbols: number[] = [];
    let afterUnknown = unknown?.before ?? false;
    for (const character of piece) {
      const id = model.ids.get(character);
      const bytes = id === undefined ? fallback?.(character) : undefined;
      if (id !== undefined) symbols.push(id);
      else if (bytes !== undefined) symbols.push(...bytes);
      else if (rule.unknownId !== undefined && !(afterUnknown && rule.fuseUnknown))
        symbols.push(rule.unknownId);
      afterUnknown = id === undefined && bytes === undefined;
    }
    if (unknown !== undefined) unknown.before = afterUnknown;
    return Int32Array.from(symbols);
  };
}

/** Undefined where the vocabulary lacks a `<0xNN>` token. */
export function byteTokenIds(
  ids: ReadonlyMap<string, number>,
): (character: string) => readonly number[] | undefined {
  const idOfByte = byteCharacters.map((_, byte) => ids.get(byteTokenText(byte)));
  return (character) => {
    const found: number[] = [];
    for (const byte of encoder.encode(character)) {
      const id = idOfByte[byte];
      if (id === undefined) return undefined;
      found.push(id);
    }
    return found;
  };
}

function byteTokenText(byte: number): string {
  return `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`;
}

const characters = buildCharacters();
const bytes: ReadonlyMap<string, number> = new Map(characters.map((character, byte) => [character, byte]));

/**
 * The alphabet of byte-level vocabularies: a printable character for each byte. Printable Latin-1 bytes stand for
 * themselves, the rest follow from U+0100 on.
 */
export const byteCharacters: readonly string[] = characters;

export function toByteCharacters(text: string): string {
  let mapped = '';
  for (const byte of encoder.encode(text)) mapped += characters[byte];
  return mapped;
}

/** Undefined where a character stands for no byte. */
export function fromByteCharacters(mapped: string): Uint8Array | undefined {
  const result = new Uint8Array(mapped.length);
  let length = 0;
  for (const character of mapped) {
    const byte = bytes.get(character);
    if (byte === undefined) return undefined;
    result[length++] = byte;
  }
  return result.subarray(0, length);
}

function buildCharacters(): string[] {
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte !== 0xad);
    return String.fromCodePoint(printable ? byte : next++);
  });
}
