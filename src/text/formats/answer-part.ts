// What an answer with tools is made of, and who reads it.

export interface Tool {
  readonly name: string;
  readonly description?: string | undefined;
  readonly parameters: unknown;
  readonly strict: boolean;
}

export type AnswerPart =
  | { readonly kind: 'content'; readonly text: string }
  | { readonly kind: 'reasoning'; readonly text: string }
  /** Calls are counted from 0. */
  | { readonly kind: 'call'; readonly call: number; readonly name: string }
  /** A piece of JSON text. */
  | { readonly kind: 'arguments'; readonly call: number; readonly text: string };

export interface AnswerReader {
  /** A piece of text, or one control token by its spelling. Returns what is certain by now. */
  push(text: string, control: boolean): AnswerPart[];
  /**
   * Returns the rest. `cut`: by a limit or a stop string; a possible beginning of a mark or a call is then no text,
   * and a call whose name is known is returned as far as it has come.
   */
  end(cut: boolean): AnswerPart[];
  readonly hasOpenCall: boolean;
}
