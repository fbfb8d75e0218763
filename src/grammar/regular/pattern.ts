// Regular languages as trees: what regular expressions, numbers and formats are written as before they become automata.

import { type CodePoints, codePoints, single } from './code-points.ts';

export type Pattern =
  | { readonly kind: 'characters'; readonly set: CodePoints }
  | { readonly kind: 'sequence'; readonly parts: readonly Pattern[] }
  | { readonly kind: 'choice'; readonly options: readonly Pattern[] }
  | {
      readonly kind: 'repeat';
      readonly part: Pattern;
      readonly least: number;
      readonly most?: number | undefined;
    }
  /** `^` and `$`: nothing, at the beginning or at the end of the text. */
  | { readonly kind: 'begin' }
  | { readonly kind: 'end' };

export function characters(set: CodePoints): Pattern {
  return { kind: 'characters', set };
}

export function range(first: string, last: string): Pattern {
  return characters(codePoints([[first.codePointAt(0) as number, last.codePointAt(0) as number]]));
}

export function sequenceOf(...parts: readonly Pattern[]): Pattern {
  return parts.length === 1 ? (parts[0] as Pattern) : { kind: 'sequence', parts };
}

export function choiceOf(...options: readonly Pattern[]): Pattern {
  return options.length === 1 ? (options[0] as Pattern) : { kind: 'choice', options };
}

export function repeatOf(part: Pattern, least: number, most?: number): Pattern {
  return { kind: 'repeat', part, least, most };
}

export function spelled(text: string): Pattern {
  return sequenceOf(
    ...Array.from(text, (character) => characters(single(character.codePointAt(0) as number))),
  );
}

export const nothing: Pattern = { kind: 'sequence', parts: [] };
