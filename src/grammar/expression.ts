// What an answer may be, as data: the one language that JSON Schema, regular expressions, EBNF and the formats of tool
// calls are all translated into. It travels between threads and is its own key in the cache.

/** First and last code point, both included. */
export type CharacterRange = readonly [first: number, last: number];

/** Strings that hold no mark which would end them, or what they stand in. */
export interface StringMarks {
  /** Before and behind a string, which then has no escapes; empty where it stands alone. Default: as in JSON. */
  readonly quote?: string;
  readonly without: string;
}

export type Expression =
  | { readonly kind: 'text'; readonly text: string }
  /** One character of any of the ranges. */
  | { readonly kind: 'characters'; readonly ranges: readonly CharacterRange[] }
  | { readonly kind: 'sequence'; readonly parts: readonly Expression[] }
  /** Without options: nothing matches. */
  | { readonly kind: 'choice'; readonly options: readonly Expression[] }
  /** Without `most`, any number of times. */
  | {
      readonly kind: 'repeat';
      readonly part: Expression;
      readonly least: number;
      readonly most?: number | undefined;
    }
  /** A control token where the vocabulary has one of this spelling, else plain text. */
  | { readonly kind: 'mark'; readonly text: string }
  /**
   * Whatever holds none of these marks: text, and control tokens that do not end an answer. Where it stands last, the
   * answer may end at any place in it.
   */
  | { readonly kind: 'free'; readonly without: readonly string[] }
  /**
   * JSON text that is valid against the schema; any JSON text where the schema is true. `lenient`: where the schema cannot
   * be enforced, any value of its type will do, and a note says so. `strings`: how they are written, if not as in JSON.
   */
  | {
      readonly kind: 'schema';
      readonly schema: unknown;
      readonly lenient?: boolean;
      readonly strings?: StringMarks;
    }
  /** Text that a regular expression matches as a whole. */
  | { readonly kind: 'regex'; readonly pattern: string }
  /** Text of a grammar in GBNF or EBNF, from its rule `root`. */
  | { readonly kind: 'grammar'; readonly text: string };

export function text(spelled: string): Expression {
  return { kind: 'text', text: spelled };
}

export function sequence(...parts: readonly Expression[]): Expression {
  return { kind: 'sequence', parts };
}

export function choice(...options: readonly Expression[]): Expression {
  return { kind: 'choice', options };
}

export function optional(part: Expression): Expression {
  return { kind: 'repeat', part, least: 0, most: 1 };
}
