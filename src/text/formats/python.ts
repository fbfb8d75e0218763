// How Python spells values.

import { type LiteralStyle, plainWord } from './literal.ts';
import { pythonWord } from './parameters.ts';
import type { Reading, Tape } from './tape.ts';

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
  // A line that is continued.
  '\n': '',
};

/** How many digits name a character. */
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

/** As in Python, what means nothing stays as it stands. */
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
