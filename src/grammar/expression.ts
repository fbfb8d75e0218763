// What an answer may be, as data: JSON Schema, regular expressions, EBNF and tool-call formats are translated to it.
// It is passed between threads and is its own cache key.

/** Both included. */
export type CharacterRange = readonly [first: number, last: number];

/** Restricts strings so that they contain no mark that would end them or their surroundings. */
export interface StringMarks {
  /** Around a string, which then has no escapes; empty where it stands alone. Default: as in JSON. */
  readonly quote?: string;
  readonly without: string;
}

export type Expression =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'characters'; readonly ranges: readonly CharacterRange[] }
  | { readonly kind: 'sequence'; readonly parts: readonly Expression[] }
  /** Without options nothing matches. */
  | { readonly kind: 'choice'; readonly options: readonly Expression[] }
  | {
      readonly kind: 'repeat';
      readonly part: Expression;
      readonly least: number;
      readonly most?: number | undefined;
    }
  /** A control token where the vocabulary has it, else plain text. */
  | { readonly kind: 'mark'; readonly text: string }
  /**
   * Text and control tokens without these marks; tokens that end an answer are excluded. Where it stands last, the
   * answer may end anywhere in it.
   */
  | { readonly kind: 'free'; readonly without: readonly string[] }
  /**
   * JSON text that is valid against the schema. `lenient`: where a keyword cannot be enforced, more than the valid texts
   * match, and a note says so; with `type` any value of the schema's type where the schema is malformed or too large.
   * `strings`: how they are written, if not as in JSON.
   */
  | {
      readonly kind: 'schema';
      readonly schema: unknown;
      readonly lenient?: 'closest' | 'type';
      readonly strings?: StringMarks;
    }
  /** The part matches more than is valid: `note` says what of a schema is not enforced. */
  | { readonly kind: 'noted'; readonly part: Expression; readonly note: string }
  | { readonly kind: 'regex'; readonly pattern: string }
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
