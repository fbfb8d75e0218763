// Escapes and case folding of Oniguruma in JavaScript's `v` syntax.

type Escape =
  | { readonly kind: 'character'; readonly character: string; readonly length: number }
  /** Allowed within a class. */
  | { readonly kind: 'set'; readonly text: string; readonly length: number }
  | { readonly kind: 'assertion'; readonly text: string; readonly length: number }
  | { readonly kind: 'unsupported'; readonly construct: string };

const word = '[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}]';
const notWord = '[^\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}]';

const sets: Readonly<Record<string, string>> = {
  s: '\\p{White_Space}',
  S: '\\P{White_Space}',
  d: '\\p{Nd}',
  D: '\\P{Nd}',
  w: word,
  W: notWord,
  h: '[0-9a-fA-F]',
  H: '[^0-9a-fA-F]',
};

const assertions: Readonly<Record<string, string>> = {
  b: `(?:(?<=${word})(?!${word})|(?<!${word})(?=${word}))`,
  B: `(?:(?<=${word})(?=${word})|(?<!${word})(?!${word}))`,
  A: '(?<![^])',
  z: '(?![^])',
  Z: '(?=\\n?(?![^]))',
};

const controls: Readonly<Record<string, string>> = {
  t: '\t',
  n: '\n',
  r: '\r',
  f: '\f',
  v: '\v',
  a: '\x07',
  e: '\x1b',
  '0': '\0',
};

export function readEscape(pattern: string, start: number): Escape {
  const rest = pattern.slice(start + 1);
  const property = /^[pP](?:\{(?<negated>\^?)(?<name>[^}]*)\}|(?<letter>[A-Z]))/.exec(rest);
  if (property !== null) return readProperty(property);
  const code = /^(?:x\{(?<braced>[0-9A-Fa-f]+)\}|x(?<two>[0-9A-Fa-f]{1,2})|u(?<four>[0-9A-Fa-f]{4}))/.exec(
    rest,
  );
  if (code !== null) {
    const digits = code.groups?.braced ?? code.groups?.two ?? code.groups?.four ?? '';
    const character = String.fromCodePoint(Number.parseInt(digits, 16));
    return { kind: 'character', character, length: 1 + code[0].length };
  }
  const name = rest.charAt(0);
  const set = sets[name];
  if (set !== undefined) return { kind: 'set', text: set, length: 2 };
  const assertion = assertions[name];
  if (assertion !== undefined) return { kind: 'assertion', text: assertion, length: 2 };
  const control = controls[name];
  if (control !== undefined) return { kind: 'character', character: control, length: 2 };
  if (name === '' || /[A-Za-z0-9]/.test(name)) return { kind: 'unsupported', construct: `\\${name}` };
  const literal = String.fromCodePoint(rest.codePointAt(0) as number);
  return { kind: 'character', character: literal, length: 1 + literal.length };
}

function readProperty(match: RegExpExecArray): Escape {
  const { negated = '', name: braced, letter } = match.groups ?? {};
  const name = braced ?? letter ?? '';
  const capital = match[0].startsWith('P') !== (negated === '^') ? 'P' : 'p';
  // Oniguruma names scripts without a prefix.
  const spelled = [name, `Script=${name}`].find((candidate) => isProperty(candidate));
  if (spelled === undefined) return { kind: 'unsupported', construct: `\\p{${name}}` };
  return { kind: 'set', text: `\\${capital}{${spelled}}`, length: 1 + match[0].length };
}

function isProperty(name: string): boolean {
  try {
    new RegExp(`\\p{${name}}`, 'v');
    return true;
  } catch {
    return false;
  }
}

// Characters that fold to a letter of another script or form, beside its own two cases.
const extraFolds: Readonly<Record<string, string>> = { s: 'ſ', k: '\u212a', å: '\u212b' };

/** All characters equal to this one without case. */
export function foldedVariants(character: string): readonly string[] {
  const lower = character.toLowerCase();
  const candidates = [character, lower, character.toUpperCase(), extraFolds[lower] ?? ''];
  return [...new Set(candidates)].filter((variant) => [...variant].length === 1);
}
