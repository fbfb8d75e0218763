// The tokens of texts that a request names for sampling: words that may not come, and what no repetition reaches across.

import { MAX_SEQUENCES } from '../sampling/parameter-checks.ts';
import type { Spelling } from '../sampling/parameters.ts';
import type { Tokenizer } from '../text/tokenizer.ts';

/** Tokens that follow the first of a sequence breaker, at most. */
const MOST_TAIL = 20;
/** Sequence breakers whose tokens are kept, for each tokenizer. */
const MOST_KEPT = 64;

type Sequences = readonly (readonly number[])[];

/** Finding the tokens in which a text occurs means looking at the whole vocabulary. */
const keptBreakers = new WeakMap<Tokenizer, Map<string, Sequences>>();
const keptSpellings = new WeakMap<Tokenizer, readonly string[]>();

export function spellingOf(tokenizer: Tokenizer): Spelling {
  return {
    wordTokens: (word) => wordTokens(word, tokenizer),
    breakerTokens: (text) => kept(tokenizer, text),
  };
}

/** A word is spelled differently at the beginning of a text and after a space. */
function wordTokens(word: string, tokenizer: Tokenizer): Sequences {
  const plain = word.trimStart();
  const spelled = [plain, ` ${plain}`].map((text) => [...tokenizer.encode(text)]);
  const [first = [], second = []] = spelled;
  const isSame = first.length === second.length && first.every((id, at) => id === second[at]);
  return (isSame ? [first] : [first, second]).filter(({ length }) => length > 0);
}

function kept(tokenizer: Tokenizer, text: string): Sequences {
  const known = keptBreakers.get(tokenizer) ?? new Map<string, Sequences>();
  keptBreakers.set(tokenizer, known);
  const found = known.get(text) ?? breakerTokens(text, tokenizer);
  // The one that was used last is the last in the map.
  known.delete(text);
  known.set(text, found);
  const [oldest] = known.keys();
  if (known.size > MOST_KEPT && oldest !== undefined) known.delete(oldest);
  return found;
}

/** Tokens that contain the text, and tokens that end with its beginning, with the tokens of its rest. */
function breakerTokens(text: string, tokenizer: Tokenizer): Sequences {
  const bytes = latin(Buffer.from(text));
  const beginnings = beginningsOf(bytes, tokenizer);
  const sequences: (readonly number[])[] = [];
  const spellings = spellingsOf(tokenizer);
  for (let id = 0; id < spellings.length && sequences.length <= MAX_SEQUENCES; id++) {
    const spelled = spellings[id] as string;
    if (spelled.length >= bytes.length && spelled.includes(bytes)) {
      sequences.push([id]);
      continue;
    }
    for (const { beginning, tail } of beginnings[spelled.charCodeAt(spelled.length - 1)] ?? []) {
      if (spelled.endsWith(beginning)) sequences.push([id, ...tail]);
    }
  }
  return sequences;
}

interface Beginning {
  readonly beginning: string;
  /** The tokens of the text's rest. */
  readonly tail: Int32Array;
}

/** The beginnings of a text by their last bytes, the longest first: few tokens need a look at more than that byte. */
function beginningsOf(bytes: string, tokenizer: Tokenizer): readonly (readonly Beginning[])[] {
  const byLast: Beginning[][] = Array.from({ length: 256 }, () => []);
  for (let length = bytes.length - 1; length > 0; length--) {
    const rest = Buffer.from(bytes.slice(length), 'latin1').toString('utf8');
    const tail = tokenizer.encode(rest).subarray(0, MOST_TAIL);
    byLast[bytes.charCodeAt(length - 1)]?.push({ beginning: bytes.slice(0, length), tail });
  }
  return byLast;
}

/** The bytes of all tokens, one character each. */
function spellingsOf(tokenizer: Tokenizer): readonly string[] {
  const known = keptSpellings.get(tokenizer);
  if (known !== undefined) return known;
  const all = Array.from({ length: tokenizer.vocabSize }, (_, id) => latin(tokenizer.tokenBytes(id)));
  keptSpellings.set(tokenizer, all);
  return all;
}

function latin(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
}
