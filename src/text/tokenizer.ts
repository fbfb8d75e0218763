// The Tokenizer contract, and its assembly from the parts that each file format provides. Text is cut at
// added tokens first; what lies between them goes through the model's own rules.

import { TextDecoder } from 'node:util';
import type { Segment, SegmentSplitter } from './added-tokens.ts';
import { finish, type Steps } from './steps.ts';

export interface EncodeOptions {
  /** Control tokens spelled in the text become those tokens; else they are plain text. */
  readonly special?: boolean;
  /** Puts in front what the model wants at the start of a text: mostly BOS, nothing for many models. */
  readonly bos?: boolean;
  /** Appends what the model wants at the end of a text: nothing for most models. */
  readonly eos?: boolean;
}

export interface DecodeOptions {
  /** Control tokens appear as they are spelled; else they are left out. */
  readonly special?: boolean;
}

export interface Tokenizer {
  /** One line for people: algorithm, rule, size. */
  readonly kind: string;
  /** One more than the highest id. */
  readonly vocabSize: number;
  readonly bosId: number | undefined;
  readonly eosId: number | undefined;
  /** All ids that end a generation. */
  readonly eosIds: ReadonlySet<number>;
  /** Whether `encode` with `bos` puts anything in front. */
  readonly addBos: boolean;
  /** Decoded text loses the one space that encoding put before its first word. */
  readonly stripsLeadingSpace: boolean;
  /**
   * UTF-16 units of text that one token stands for at most: no text has fewer tokens than its length divided by
   * this. Infinity where some rule of the model swallows any amount of text.
   */
  readonly longestToken: number;
  encode(text: string, options?: EncodeOptions): Int32Array;
  /** The same ids, step by step. */
  encodeInSteps(text: string, options?: EncodeOptions): Steps<Int32Array>;
  /** Ids without a token give no text: models have more rows than tokens. */
  decode(ids: Iterable<number>, options?: DecodeOptions): string;
  /** What the token adds to the text, in bytes: often not whole characters. */
  tokenBytes(id: number): Uint8Array;
  /** The token as the vocabulary spells it. */
  tokenText(id: number): string | undefined;
  isSpecial(id: number): boolean;
}

export interface TokenizerParts {
  readonly kind: string;
  /** By id; undefined where an id has no token. */
  readonly tokens: readonly (string | undefined)[];
  readonly bosId: number | undefined;
  readonly eosId: number | undefined;
  readonly eosIds: ReadonlySet<number>;
  readonly prefixIds: readonly number[];
  readonly suffixIds: readonly number[];
  readonly stripsLeadingSpace: boolean;
  /** How many times shorter the rules may make a text before merging: 1 where they only ever lengthen it. */
  readonly shrinkage: number;
  readonly specialIds: ReadonlySet<number>;
  readonly splitAddedTokens: SegmentSplitter;
  /** Encodes text that holds no added token. */
  readonly encodeText: TextEncoding;
  readonly bytesOf: (id: number, token: string) => Uint8Array;
}

export type TextEncoding = (
  segment: Extract<Segment, { kind: 'text' }>,
  special: boolean,
  into: number[],
) => Steps;

const noBytes = new Uint8Array(0);

export function assembleTokenizer(parts: TokenizerParts): Tokenizer {
  const { tokens, specialIds } = parts;
  const bytesById: Uint8Array[] = [];

  const tokenBytes = (id: number): Uint8Array => {
    const token = tokens[id];
    if (token === undefined) return noBytes;
    bytesById[id] ??= parts.bytesOf(id, token);
    return bytesById[id];
  };

  function* encodeInSteps(
    text: string,
    { special = false, bos = false, eos = false }: EncodeOptions = {},
  ): Steps<Int32Array> {
    const ids: number[] = [];
    for (const segment of parts.splitAddedTokens(wellFormed(text), special)) {
      if (segment.kind === 'pause') yield;
      else if (segment.kind === 'token') ids.push(segment.id);
      else yield* parts.encodeText(segment, special, ids);
    }
    // A text that spells its own BOS keeps that one alone.
    const prefix = bos && !startsWith(ids, parts.prefixIds) ? parts.prefixIds : [];
    return idsOf(prefix, ids, eos ? parts.suffixIds : []);
  }

  return {
    kind: parts.kind,
    vocabSize: tokens.length,
    bosId: parts.bosId,
    eosId: parts.eosId,
    eosIds: parts.eosIds,
    addBos: parts.prefixIds.length > 0,
    stripsLeadingSpace: parts.stripsLeadingSpace,
    longestToken: parts.shrinkage * longestText(tokens),
    encode: (text, options) => finish(encodeInSteps(text, options)),
    encodeInSteps,
    decode(ids, { special = false } = {}) {
      const chunks: Uint8Array[] = [];
      for (const id of ids) if (special || !specialIds.has(id)) chunks.push(tokenBytes(id));
      const text = newUtf8Decoder().decode(Buffer.concat(chunks));
      return parts.stripsLeadingSpace && text.startsWith(' ') ? text.slice(1) : text;
    },
    tokenBytes,
    tokenText: (id) => tokens[id],
    isSpecial: (id) => specialIds.has(id),
  };
}

function idsOf(...parts: readonly (readonly number[])[]): Int32Array {
  const ids = new Int32Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    ids.set(part, at);
    at += part.length;
  }
  return ids;
}

/** Of a token that spells bytes as characters, its bytes: never fewer than the units of the text they spell. */
function longestText(tokens: readonly (string | undefined)[]): number {
  // A character that has no token of its own has two units at most, and some token each.
  return tokens.reduce((longest, token) => Math.max(longest, token?.length ?? 0), 2);
}

/** Bytes that are no UTF-8 become U+FFFD; a byte order mark is text like any other. */
export function newUtf8Decoder(): TextDecoder {
  return new TextDecoder('utf-8', { ignoreBOM: true });
}

/** Half a surrogate pair is no character and has no UTF-8: it becomes U+FFFD. */
function wellFormed(text: string): string {
  return text.replace(/\p{Surrogate}/gu, '\ufffd');
}

function startsWith(ids: readonly number[], prefix: readonly number[]): boolean {
  return prefix.every((id, index) => ids[index] === id);
}

/** Names no plain text spells by accident. */
const turnEnds: readonly string[] = [
  '<|eot_id|>',
  '<|im_end|>',
  '<|end|>',
  '<|return|>',
  '<|call|>',
  '<|eom_id|>',
  '<|endoftext|>',
  '<|end_of_text|>',
  '<end_of_turn>',
  '<end_of_utterance>',
  '<｜end▁of▁sentence｜>',
];

/** Names that count only where the file marks the token as more than text. */
const markedEnds: readonly string[] = ['</s>', '<eos>', '<EOT>', '[EOT]', '[EOS]'];

interface NamedTokens {
  readonly idOf: (name: string) => number | undefined;
  /** Whether the file marks the token as a control or added token. */
  readonly isMarked: (id: number) => boolean;
}

/** The ids whose names say that a generation ends there, beside those a file declares. */
export function turnEndIds({ idOf, isMarked }: NamedTokens): Set<number> {
  const ids = new Set<number>();
  for (const name of [...turnEnds, ...markedEnds]) {
    const id = idOf(name);
    if (id !== undefined && (turnEnds.includes(name) || isMarked(id))) ids.add(id);
  }
  // Where `<|return|>` and `<|call|>` end a turn, `<|end|>` only ends one of its messages.
  const end = idOf('<|end|>');
  if (end !== undefined && idOf('<|return|>') !== undefined && idOf('<|call|>') !== undefined)
    ids.delete(end);
  return ids;
}
