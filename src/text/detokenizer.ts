// Decodes ids one by one. Emits whole characters only; all pieces together equal `Tokenizer.decode` of all ids.

import { newUtf8Decoder, type Tokenizer } from './tokenizer.ts';

export interface DetokenizerOptions {
  /** Shows control tokens as they are spelled; otherwise they are left out. */
  readonly special?: boolean;
  /** The ids continue a text: a space before their first word is kept. */
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

  /** Often empty. */
  push(id: number): string {
    if (!this.#special && this.#tokenizer.isSpecial(id)) return '';
    return this.#strip(this.#decoder.decode(this.#tokenizer.tokenBytes(id), { stream: true }));
  }

  /** U+FFFD where a character stayed incomplete. */
  flush(): string {
    return this.#strip(this.#decoder.decode());
  }

  #strip(text: string): string {
    if (!this.#stripSpace || text === '') return text;
    this.#stripSpace = false;
    return text.startsWith(' ') ? text.slice(1) : text;
  }
}
