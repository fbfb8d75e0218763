// One answer as parts: tokens in; text, reasoning and calls out, as far as they are certain.

import { randomBytes } from 'node:crypto';
import type { Logprobs } from '../engine/request.ts';
import type { AnswerPart, AnswerReader } from '../text/formats/format.ts';
import type { Tokenizer } from '../text/tokenizer.ts';
import { ChoiceText, type ChoiceTextOptions, type TokenDetail } from './choice-text.ts';

/** Calls have an id by which their results are given back. */
export type GenerationPart = Exclude<AnswerPart, { kind: 'call' }> | NamedCall;

export interface NamedCall {
  readonly kind: 'call';
  readonly call: number;
  readonly name: string;
  readonly id: string;
}

export interface AnswerPiece {
  readonly parts: readonly GenerationPart[];
  readonly details: readonly TokenDetail[];
}

/** The text of an answer, without reasoning and calls. */
export function contentOf(parts: readonly GenerationPart[]): string {
  return parts.map((part) => (part.kind === 'content' ? part.text : '')).join('');
}

export class AnswerParts {
  readonly #tokenizer: Tokenizer;
  readonly #text: ChoiceText;
  readonly #reader: AnswerReader | undefined;
  #calls = 0;

  constructor(tokenizer: Tokenizer, options: ChoiceTextOptions, reader: AnswerReader | undefined) {
    this.#tokenizer = tokenizer;
    this.#text = new ChoiceText(tokenizer, options);
    this.#reader = reader;
  }

  /** Calls so far. */
  get calls(): number {
    return this.#calls;
  }

  /** Whether the last call was cut off within its arguments. */
  get hasOpenCall(): boolean {
    return this.#reader?.hasOpenCall ?? false;
  }

  /** The stop string that ended it. */
  get stop(): string | undefined {
    return this.#text.stop;
  }

  push(token: number, logprobs: Logprobs | undefined): AnswerPiece & { readonly stopped: boolean } {
    if (this.#reader !== undefined && this.#tokenizer.isSpecial(token)) {
      return { parts: this.#control(token, this.#reader), details: [], stopped: false };
    }
    const { text, details, stopped } = this.#text.push(token, logprobs);
    const parts = [...this.#read(text), ...(stopped ? this.#end(true) : [])];
    return { parts, details, stopped };
  }

  /** A token that ends the answer: no text, but it may be a mark. */
  endWith(token: number): GenerationPart[] {
    return this.#reader === undefined || !this.#tokenizer.isSpecial(token)
      ? []
      : this.#control(token, this.#reader);
  }

  /** The rest, where the answer ended without a stop string; `cut`: the model had not come to its end. */
  end(cut: boolean): AnswerPiece & { readonly stopped: boolean } {
    const { text, details, stopped } = this.#text.end();
    return { parts: [...this.#read(text), ...this.#end(cut || stopped)], details, stopped };
  }

  #control(token: number, reader: AnswerReader): GenerationPart[] {
    const held = this.#read(this.#text.interrupt());
    return [...held, ...this.#named(reader.push(this.#tokenizer.tokenText(token) ?? '', true))];
  }

  #read(text: string): GenerationPart[] {
    if (text === '') return [];
    return this.#reader === undefined
      ? [{ kind: 'content', text }]
      : this.#named(this.#reader.push(text, false));
  }

  #end(cut: boolean): GenerationPart[] {
    return this.#reader === undefined ? [] : this.#named(this.#reader.end(cut));
  }

  #named(parts: readonly AnswerPart[]): GenerationPart[] {
    return parts.map((part) => {
      if (part.kind !== 'call') return part;
      this.#calls++;
      return { ...part, id: callId() };
    });
  }
}

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';

/** Nine letters and digits: what the strictest templates accept. */
function callId(): string {
  return Array.from(randomBytes(9), (byte) => alphabet[byte % alphabet.length]).join('');
}
