// Turns ids into text as they come. It emits whole characters only: bytes of an unfinished one wait for the
// next token. All pieces together equal `Tokenizer.decode` of all ids.

import { newUtf8Decoder, type Tokenizer } from './tokenizer.ts';

export interface DetokenizerOptions {
  /** Control tokens appear as they are spelled; else they are left out. */
  readonly special?: boolean;
  /** The ids continue a text, so that a space before their first word belongs to it. */
  readonly continuation?: boolean;
}

export class Detokenizer {
  readonly #tokenizer: Tokenizer;
  readonly #decoder = newUtf8Decoder();
  readonly #special: boolean;
  #stripSpace: boolean;

  constructor(tokenizer: Tokenizer, { special = false, continuation = false }: DetokenizerOptions = {}) {
    this.#tokenizer = tokenizer;
    this.#special = special;
    this.#stripSpace = tokenizer.stripsLeadingSpace && !continuation;
  }

  /** The text that this token completes; often empty. */
  push(id: number): string {
    if (!this.#special && this.#tokenizer.isSpecial(id)) return '';
    return this.#strip(this.#decoder.decode(this.#tokenizer.tokenBytes(id), { stream: true }));
  }

  /** What is left at the end: U+FFFD where a character stayed unfinished. */
  flush(): string {
    return this.#strip(this.#decoder.decode());
  }

  #strip(text: string): string {
    if (!this.#stripSpace || text === '') return text;
    this.#stripSpace = false;
    return text.startsWith(' ') ? text.slice(1) : text;
  }
}
