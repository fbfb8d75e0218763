// How strings and keys are written: as JSON does, or without escapes between marks of a model's own format.

import { tooLarge } from '../grammar-error.ts';
import { type CharacterDfa, difference, lengthDfa, textsDfa } from '../regular/character-dfa.ts';
import { repeatOf, spelled } from '../regular/pattern.ts';
import { toDfa } from '../regular/pattern-dfa.ts';
import { anyCharacter, searching } from '../regular/regex.ts';
import type { Node, RuleBook } from '../rules.ts';

export interface StringSpelling {
  /** Tells rules of one spelling from those of another. */
  readonly name: string;
  /** One of these texts. */
  of(dfa: CharacterDfa): Node;
  /** Any text of so many characters. */
  any(book: RuleBook, least: number, most: number | undefined): Node;
  /** A name of an object's own. */
  key(name: string): Node;
}

const MAX_LENGTH = 2 ** 24 - 1;

export const jsonStrings: StringSpelling = {
  name: '',
  of(dfa) {
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
  key: (name) => jsonStrings.of(textsDfa([name])),
};

export const anyText = toDfa(repeatOf(anyCharacter, 0));

/** Needs no quotes. */
const plainKey = /^[^\s:{}[\],"<]+$/;

/** None of them holds the text; `quote` stands on both sides of what then has no escapes. */
export function stringsWithout(
  name: string,
  text: string | undefined,
  quote: Node | undefined,
): StringSpelling {
  const excluded = text === undefined ? undefined : toDfa(searching(spelled(text)));
  const of = (dfa: CharacterDfa): Node => {
    const held = excluded === undefined ? dfa : difference(dfa, excluded);
    if (quote === undefined) return jsonStrings.of(held);
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
    key: (key) => (isBare(key) ? { kind: 'text', text: key } : of(textsDfa([key]))),
  };
}
