// The Tokenizer contract, and its assembly from the parts of each file format. Text is split at added tokens first.

import { TextDecoder } from 'node:util';
import type { Segment, SegmentSplitter } from './added-tokens.ts';
import { finish, type Steps } from './steps.ts';

export interface EncodeOptions {
  /** Parses control tokens in the text; otherwise they are plain text. */
  readonly special?: boolean;
  /** Adds the model's BOS tokens; many models have none. */
  readonly bos?: boolean;
  /** Adds the model's EOS tokens; most models have none. */
  readonly eos?: boolean;
  /** Left out, once control tokens were found: a spelling that has it within is plain text. Default: nothing. */
  readonly breaker?: string;
}

export interface DecodeOptions {
  /** Shows control tokens as they are spelled; otherwise they are left out. */
  readonly special?: boolean;
}

export interface Tokenizer {
  readonly kind: string;
  /** One more than the highest id. */
  readonly vocabSize: number;
  readonly bosId: number | undefined;
  readonly eosId: number | undefined;
  readonly eosIds: ReadonlySet<number>;
  readonly addBos: boolean;
  /** Between two texts of one prompt, after what ends the first. */
  readonly betweenIds: readonly number[];
  /** Decoding removes the one space that encoding adds before the first word. */
  readonly stripsLeadingSpace: boolean;
  /** The most UTF-16 units of text per token. Infinity where a rule of the model swallows any amount of text. */
  readonly longestToken: number;
  encode(text: string, options?: EncodeOptions): Int32Array;
  encodeInSteps(text: string, options?: EncodeOptions): Steps<Int32Array>;
  /** Ids without a token give no text: models have more rows than tokens. */
  decode(ids: Iterable<number>, options?: DecodeOptions): string;
  /** Often not whole characters. */
  tokenBytes(id: number): Uint8Array;
  tokenText(id: number): string | undefined;
  isSpecial(id: number): boolean;
}

export interface TokenizerParts {
  readonly kind: string;
  /** By id. */
  readonly tokens: readonly (string | undefined)[];
  readonly bosId: number | undefined;
  readonly eosId: number | undefined;
  readonly eosIds: ReadonlySet<number>;
  readonly prefixIds: readonly number[];
  readonly suffixIds: readonly number[];
  /** Between two texts of one prompt, after what ends the first. Default none. */
  readonly betweenIds?: readonly number[] | undefined;
  readonly stripsLeadingSpace: boolean;
  /** How many times shorter the rules may make a text before merging; 1 where never. */
  readonly shrinkage: number;
  readonly specialIds: ReadonlySet<number>;
  readonly splitAddedTokens: SegmentSplitter;
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
    { special = false, bos = false, eos = false, breaker }: EncodeOptions = {},
  ): Steps<Int32Array> {
    const ids: number[] = [];
    for (const segment of parts.splitAddedTokens(wellFormed(text), special)) {
      if (segment.kind === 'pause') yield;
      else if (segment.kind === 'token') ids.push(segment.id);
      else yield* parts.encodeText(breaker === undefined ? segment : without(breaker, segment), special, ids);
    }
    // A text that spells BOS itself gets no second one.
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
    betweenIds: parts.betweenIds ?? [],
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

function without<Part extends { readonly text: string }>(breaker: string, segment: Part): Part {
  return { ...segment, text: segment.text.replaceAll(breaker, '') };
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

/** A token that spells bytes has at least as many as the text has units. */
function longestText(tokens: readonly (string | undefined)[]): number {
  // A character without a token has at most two units and at least a token.
  return tokens.reduce((longest, token) => Math.max(longest, token?.length ?? 0), 2);
}

/** Invalid UTF-8 becomes U+FFFD; a byte order mark is text. */
export function newUtf8Decoder(): TextDecoder {
  return new TextDecoder('utf-8', { ignoreBOM: true });
}

/** Half a surrogate pair becomes U+FFFD. */
function wellFormed(text: string): string {
  return text.replace(/\p{Surrogate}/gu, '\ufffd');
}

function startsWith(ids: readonly number[], prefix: readonly number[]): boolean {
  return prefix.every((id, index) => ids[index] === id);
}

/** Plain text does not spell these by accident. */
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

/** Count only where the file marks the token as control or added. */
const markedEnds: readonly string[] = ['</s>', '<eos>', '<EOT>', '[EOT]', '[EOS]'];

interface NamedTokens {
  readonly idOf: (name: string) => number | undefined;
  readonly isMarked: (id: number) => boolean;
}

/**
 * Ids that end a turn by their names, besides those a file declares: a chat model stops at the end of a turn as well
 * as of a text, and files often declare one of them.
 */
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
