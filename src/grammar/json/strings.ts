// Strings and keys: as in JSON or without escapes between a model's own marks; and the languages of `pattern`, which
// matches anywhere in a text, and `format`, which is the whole of it.

import { tooLarge } from '../grammar-error.ts';
import {
  anyText,
  type CharacterDfa,
  difference,
  intersection,
  lengthDfa,
  textsDfa,
} from '../regular/character-dfa.ts';
import { spelled, toDfa } from '../regular/pattern.ts';
import { regexDfa, searchDfa, searching } from '../regular/regex.ts';
import type { Node, RuleBook } from '../rules.ts';

export interface StringSpelling {
  /** Keeps rules of different spellings apart. */
  readonly name: string;
  /** `most`: how many characters there may be, where the language does not say it. */
  of(dfa: CharacterDfa, most?: number): Node;
  any(book: RuleBook, least: number, most: number | undefined): Node;
  /** Made of parts, each of a language. */
  whole(make: (part: (dfa: CharacterDfa) => Node) => Node): Node;
  key(name: string): Node;
}

const MAX_LENGTH = 2 ** 24 - 1;

export const jsonStrings: StringSpelling = {
  name: '',
  of(dfa, most) {
    if (most !== undefined)
      return { kind: 'counted-string', dfa, least: 0, most: Math.min(most, MAX_LENGTH) };
    const quote: Node = { kind: 'text', text: '"' };
    return { kind: 'sequence', parts: [quote, { kind: 'language', dfa, encoding: 'json' }, quote] };
  },
  any(book, least, most) {
    if (least === 0 && most === undefined) {
      return book.named('string', () => {
        const quote: Node = { kind: 'text', text: '"' };
        const body: Node = { kind: 'repeat', part: { kind: 'string-character' }, least: 0 };
        return { kind: 'sequence', parts: [quote, body, quote] };
      });
    }
    if (least > MAX_LENGTH) throw tooLarge("'minLength'");
    const limit = Math.min(most ?? MAX_LENGTH, MAX_LENGTH);
    if (least > limit) return { kind: 'choice', options: [] };
    return book.named(`string ${least} ${limit}`, () => ({ kind: 'counted-string', least, most: limit }));
  },
  whole(make) {
    const quote: Node = { kind: 'text', text: '"' };
    return {
      kind: 'sequence',
      parts: [quote, make((dfa) => ({ kind: 'language', dfa, encoding: 'json' })), quote],
    };
  },
  key: (name) => jsonStrings.of(textsDfa([name])),
};

const plainKey = /^[^\s:{}[\],"<]+$/;

/** Strings without the text; with `quote` around them they have no escapes. */
export function stringsWithout(
  name: string,
  text: string | undefined,
  quote: Node | undefined,
): StringSpelling {
  const excluded = text === undefined ? undefined : toDfa(searching(spelled(text)));
  const of = (dfa: CharacterDfa, most?: number): Node => {
    const held = excluded === undefined ? dfa : difference(dfa, excluded);
    if (quote === undefined) return jsonStrings.of(held, most);
    if (most !== undefined) return of(intersection(held, lengthDfa(0, most)));
    return { kind: 'sequence', parts: [quote, { kind: 'language', dfa: held, encoding: 'plain' }, quote] };
  };
  const isBare = (key: string) => quote !== undefined && plainKey.test(key);
  return {
    name,
    of,
    any: (book, least, most) =>
      book.named(`string ${name} ${least} ${most ?? ''}`, () =>
        of(least === 0 && most === undefined ? anyText : lengthDfa(least, most)),
      ),
    // Parts together may spell the text: only what is regular can be kept from it.
    whole(make) {
      const held = (dfa: CharacterDfa) => (excluded === undefined ? dfa : difference(dfa, excluded));
      if (quote === undefined) return jsonStrings.whole((part) => make((dfa) => part(held(dfa))));
      const part = (dfa: CharacterDfa): Node => ({ kind: 'language', dfa: held(dfa), encoding: 'plain' });
      return { kind: 'sequence', parts: [quote, make(part), quote] };
    },
    key: (key) => (isBare(key) ? { kind: 'text', text: key } : of(textsDfa([key]))),
  };
}

/** Real dates: no 30th of February, and a 29th in leap years alone. */
const leapYear = String.raw`(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)`;
const date = [
  String.raw`(?:\d{4}-(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])`,
  String.raw`\d{4}-(?:0[469]|11)-(?:0[1-9]|[12]\d|30)`,
  String.raw`\d{4}-02-(?:0[1-9]|1\d|2[0-8])`,
  `${leapYear}-02-29)`,
].join('|');
const time = String.raw`(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:[zZ]|[+-](?:[01]\d|2[0-3]):[0-5]\d)`;
const octet = String.raw`(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`;
const ipv4 = String.raw`${octet}(?:\.${octet}){3}`;
const label = '[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?';
/** At most 253 characters: few labels of nearly any length, or more short ones. */
const shortLabel = '[A-Za-z0-9](?:[A-Za-z0-9-]{0,59}[A-Za-z0-9])?';
const shorterLabel = '[A-Za-z0-9](?:[A-Za-z0-9-]{0,28}[A-Za-z0-9])?';
const hostname = String.raw`(?:${label}(?:\.${label}){0,2}|${shortLabel}(?:\.${label}){3}|${shorterLabel}(?:\.${shorterLabel}){4,7})`;
const hextet = '[0-9A-Fa-f]{1,4}';
/** All eight groups, or some with one gap; the last two may be an IPv4 address. */
const ipv6 = [
  `(?:${hextet}:){7}${hextet}`,
  `(?:${hextet}:){1,7}:`,
  ...[1, 2, 3, 4, 5, 6].map((behind) => `(?:${hextet}:){1,${7 - behind}}(?::${hextet}){${behind}}`),
  `:(?::${hextet}){1,7}`,
  '::',
  `(?:${hextet}:){6}${ipv4}`,
  ...[0, 1, 2, 3, 4].map((behind) => `(?:${hextet}:){1,${5 - behind}}(?::${hextet}){${behind}}:${ipv4}`),
  `:(?::${hextet}){0,5}:${ipv4}`,
].join('|');
const hex = '[0-9A-Fa-f]';
const atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
const hostCharacter = `(?:[A-Za-z0-9._~!$&'()*+,;=-]|%${hex}${hex})`;
const userCharacter = `(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%${hex}${hex})`;
const uriCharacter = `(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%${hex}${hex})`;

function uuidOf(version: number): string {
  return `${hex}{8}-${hex}{4}-${version}${hex}{3}-[89abAB]${hex}{3}-${hex}{12}`;
}

export const formats: Readonly<Record<string, string>> = {
  date,
  time,
  'date-time': `(?:${date})[tT]${time}`,
  duration: String.raw`P(?:\d+W|(?:\d+Y)?(?:\d+M)?(?:\d+D)|(?:\d+Y)?(?:\d+M)|\d+Y|(?:(?:\d+Y)?(?:\d+M)?(?:\d+D)|(?:\d+Y)?(?:\d+M)|\d+Y)?T(?:(?:\d+H)?(?:\d+M)?(?:\d+S)|(?:\d+H)?(?:\d+M)|\d+H))`,
  uuid: `${hex}{8}-${hex}{4}-${hex}{4}-${hex}{4}-${hex}{12}`,
  // Of Pydantic.
  uuid1: uuidOf(1),
  uuid3: uuidOf(3),
  uuid4: uuidOf(4),
  uuid5: uuidOf(5),
  ipvanyaddress: `${ipv4}|${ipv6}`,
  email: String.raw`${atom}(?:\.${atom})*@(?:${label}\.)+${label}`,
  hostname,
  ipv4,
  ipv6,
  uri: String.raw`[A-Za-z][A-Za-z0-9+.-]*:(?://(?:${userCharacter}*@)?(?:\[(?:${ipv6})\]|${hostCharacter}*)(?::\d*)?(?:/${uriCharacter}*)*|/(?:${uriCharacter}+(?:/${uriCharacter}*)*)?|${uriCharacter}+(?:/${uriCharacter}*)*)(?:[?](?:${uriCharacter}|[/?])*)?(?:#(?:${uriCharacter}|[/?])*)?`,
};

const MAX_KNOWN = 256;
const known = new Map<string, CharacterDfa>();

export function patternDfa(source: string): CharacterDfa {
  return remembered(`pattern ${source}`, () => searchDfa(source));
}

/** Throws where no automaton recognizes it. */
export function isPattern(source: string): boolean {
  patternDfa(source);
  return true;
}

/** Undefined for a format that is not known: then it is an annotation. */
export function formatDfa(name: string): CharacterDfa | undefined {
  if (!Object.hasOwn(formats, name)) return undefined;
  return remembered(`format ${name}`, () => regexDfa(formats[name] as string));
}

function remembered(key: string, make: () => CharacterDfa): CharacterDfa {
  const found = known.get(key) ?? make();
  if (known.size >= MAX_KNOWN) known.clear();
  known.set(key, found);
  return found;
}
