// Converts values of Python or Gemma to JSON text. They differ in strings, keys and words.

import { pythonWord } from './parameters.ts';
import type { Reading, Tape } from './tape.ts';

export interface LiteralStyle {
  /** Undefined where there is no string. */
  readonly string: (tape: Tape) => Reading<string | undefined>;
  /** A key without quotes. */
  readonly key: RegExp | undefined;
  /** JSON text of anything else, such as a number. */
  readonly word: (spelled: string) => string | undefined;
}

/** More than any real arguments have, fewer than the stack holds. */
const deepest = 64;

export function* literal(tape: Tape, style: LiteralStyle, depth = 0): Reading<string | undefined> {
  if (depth > deepest) return undefined;
  yield* tape.skipSpace();
  const string = yield* style.string(tape);
  if (string !== undefined) return JSON.stringify(string);
  if (yield* tape.took('{')) {
    const members = yield* listed(tape, '}', () => member(tape, style, depth + 1));
    return members === undefined ? undefined : `{${members.join(',')}}`;
  }
  if (yield* tape.took('[')) {
    const items = yield* listed(tape, ']', () => literal(tape, style, depth + 1));
    return items === undefined ? undefined : `[${items.join(',')}]`;
  }
  return style.word(yield* word(tape));
}

export function* listed<T>(
  tape: Tape,
  closer: string,
  item: () => Reading<T | undefined>,
): Reading<T[] | undefined> {
  const items: T[] = [];
  for (;;) {
    yield* tape.skipSpace();
    if (yield* tape.took(closer)) return items;
    if (items.length > 0 && !(yield* tape.took(','))) return undefined;
    yield* tape.skipSpace();
    // Python allows a trailing comma.
    if (items.length > 0 && (yield* tape.took(closer))) return items;
    const found = yield* item();
    if (found === undefined) return undefined;
    items.push(found);
  }
}

function* member(tape: Tape, style: LiteralStyle, depth: number): Reading<string | undefined> {
  const key = yield* keyOf(tape, style);
  if (key === undefined || !(yield* tape.tookBehindSpace(':'))) return undefined;
  const value = yield* literal(tape, style, depth);
  return value === undefined ? undefined : `${JSON.stringify(key)}:${value}`;
}

export function* keyOf(tape: Tape, style: LiteralStyle): Reading<string | undefined> {
  const string = yield* style.string(tape);
  if (string !== undefined) return string;
  let key = '';
  while (style.key?.test((yield* tape.peek()) ?? '')) key += tape.take();
  return key === '' ? undefined : key;
}

function* word(tape: Tape): Reading<string> {
  let spelled = '';
  for (;;) {
    const symbol = yield* tape.peek();
    if (symbol === undefined || symbol.length > 1 || /[,\]})\n]/.test(symbol)) return spelled.trimEnd();
    spelled += tape.take();
  }
}

export function plainWord(spelled: string): string | undefined {
  return /^(-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?|true|false|null)$/.test(spelled) ? spelled : undefined;
}

const escapes: Readonly<Record<string, string>> = {
  n: '\n',
  t: '\t',
  r: '\r',
  b: '\b',
  f: '\f',
  '\\': '\\',
  '/': '/',
  '"': '"',
  "'": "'",
  // A continued line.
  '\n': '',
};

const digits: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };

export const python: LiteralStyle = {
  key: undefined,
  string: pythonString,
  word: (spelled) => pythonWord(spelled) ?? plainWord(spelled),
};

function* pythonString(tape: Tape): Reading<string | undefined> {
  for (const quote of ['"""', "'''", '"', "'"])
    if (yield* tape.took(quote)) return yield* content(tape, quote);
  return undefined;
}

function* content(tape: Tape, quote: string): Reading<string | undefined> {
  let text = '';
  while (!(yield* tape.took(quote))) {
    const symbol = yield* tape.peek();
    if (symbol === undefined || (symbol === '\n' && quote.length === 1)) return undefined;
    tape.take();
    text += symbol === '\\' ? yield* escaped(tape) : symbol;
  }
  return text;
}

/** As in Python, unknown escapes stay. */
function* escaped(tape: Tape): Reading<string> {
  const letter = (yield* tape.peek()) ?? '';
  if (letter.length !== 1) return '\\';
  tape.take();
  const length = digits[letter];
  if (length === undefined) return escapes[letter] ?? `\\${letter}`;
  let hex = '';
  while (hex.length < length && /^[\da-fA-F]$/.test((yield* tape.peek()) ?? '')) hex += tape.take();
  const point = Number.parseInt(hex, 16);
  if (hex.length < length || point > 0x10ffff) return `\\${letter}${hex}`;
  return String.fromCodePoint(point);
}
