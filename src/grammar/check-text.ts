// Whether a grammar accepts a text: byte by byte, or token by token as a model would write it.

import { type Grammar, Matcher } from './matcher.ts';
import { ParserStates } from './parser-states.ts';
import type { GrammarTables } from './tables.ts';

export type TextVerdict =
  | { readonly accepted: true }
  /** `at`: how many bytes are accepted. */
  | { readonly accepted: false; readonly at: number; readonly problem: string };

const encoder = new TextEncoder();

export function checkBytes(tables: GrammarTables, text: string): TextVerdict {
  const bytes = encoder.encode(text);
  let parserStates = new ParserStates(tables);
  let parserState = parserStates.start;
  for (const [at, byte] of bytes.entries()) {
    const next = parserStates.next(parserState, byte);
    if (next === null) return { accepted: false, at, problem: unexpected(bytes, at) };
    parserState = next;
    if (!parserStates.full) continue;
    parserStates = new ParserStates(tables);
    parserState = parserStates.adopt(parserState);
  }
  return parserState.complete
    ? { accepted: true }
    : { accepted: false, at: bytes.length, problem: 'the text ends too early' };
}

interface TextEncoding {
  encode(text: string): Int32Array;
  tokenBytes(id: number): Uint8Array;
}

/** By masks, as when a model writes this text. */
export function checkText(grammar: Grammar, tokenizer: TextEncoding, text: string): TextVerdict {
  // Some tokenizers put a space in front that is not part of the text.
  const tokens = tokenizer.encode(text);
  const matcher = new Matcher(grammar, false);
  for (const token of tokens) {
    const mask = matcher.mask();
    const allowed = (((mask[token >>> 5] as number) >>> (token & 31)) & 1) === 1;
    if (!allowed || !matcher.accept(token)) return checkBytes(grammar.tables, text);
  }
  return matcher.complete ? { accepted: true } : checkBytes(grammar.tables, text);
}

function unexpected(bytes: Uint8Array, at: number): string {
  const found = Buffer.from(bytes.subarray(at, at + 20)).toString('utf8');
  return `${JSON.stringify(found)} is not possible here`;
}
