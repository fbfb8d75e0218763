// One answer as parts: tokens in; text, reasoning and calls out, as far as they are certain.

import { randomBytes } from 'node:crypto';
import type { Logprobs } from '../engine/request.ts';
import { Detokenizer, type DetokenizerOptions } from '../text/detokenizer.ts';
import type { AnswerPart, AnswerReader } from '../text/formats/answer-part.ts';
import { StopStrings } from '../text/stop-strings.ts';
import type { Tokenizer } from '../text/tokenizer.ts';

/** Calls have an id, by which clients return their results. */
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

  get calls(): number {
    return this.#calls;
  }

  /** Whether the last call was cut off within its arguments. */
  get hasOpenCall(): boolean {
    return this.#reader?.hasOpenCall ?? false;
  }

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

  /** Where the next token's text begins. */
  get offset(): number {
    return this.#text.length;
  }

  /** A token that ends the answer has no text but may be a mark. */
  endWith(token: number): GenerationPart[] {
    return this.#reader === undefined || !this.#tokenizer.isSpecial(token)
      ? []
      : this.#control(token, this.#reader);
  }

  /** The rest, where no stop string ended the answer. `cut`: the model had not come to its end. */
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
export function callId(): string {
  return Array.from(randomBytes(9), (byte) => alphabet[byte % alphabet.length]).join('');
}

export interface TokenDetail extends Logprobs {
  readonly token: number;
  /** Where its text begins in the answer. */
  readonly offset: number;
  /** The first token of a prompt: nothing comes before it that would make it likely or not. */
  readonly isFirst?: boolean;
  /** A token of the prompt. */
  readonly isPrompt?: boolean;
}

interface TextPiece {
  readonly text: string;
  readonly details: readonly TokenDetail[];
}

interface ChoiceTextOptions extends DetokenizerOptions {
  readonly stops: readonly string[];
  /** Stop strings are searched only after this many tokens. */
  readonly minTokens: number;
  /** Where the text begins: after the prompt, where that is shown. Default 0. */
  readonly offset?: number;
  /** Shows the stop string that ends the text. Default false. */
  readonly showsStop?: boolean;
}

export class ChoiceText {
  readonly #detokenizer: Detokenizer;
  readonly #stops: StopStrings;
  readonly #minTokens: number;
  #details: TokenDetail[] = [];
  #tokens = 0;
  #decoded = 0;
  #shown = 0;
  readonly #offset: number;
  readonly #showsStop: boolean;

  constructor(
    tokenizer: Tokenizer,
    { stops, minTokens, offset = 0, showsStop = false, ...options }: ChoiceTextOptions,
  ) {
    this.#offset = offset;
    this.#showsStop = showsStop;
    this.#detokenizer = new Detokenizer(tokenizer, options);
    this.#stops = new StopStrings(stops);
    this.#minTokens = minTokens;
  }

  get stop(): string | undefined {
    return this.#stops.found;
  }

  /** Of all text so far, with what comes before it. */
  get length(): number {
    return this.#offset + this.#decoded;
  }

  push(token: number, logprobs: Logprobs | undefined): TextPiece & { readonly stopped: boolean } {
    if (logprobs !== undefined) this.#details.push({ token, offset: this.#decoded, ...logprobs });
    this.#tokens++;
    const decoded = this.#detokenizer.push(token);
    this.#decoded += decoded.length;
    const early = this.#tokens <= this.#minTokens;
    const { text, stopped } = early ? { text: decoded, stopped: false } : this.#search(decoded);
    this.#shown += text.length;
    return { text, details: this.#release(stopped ? 'stopped' : 'open'), stopped };
  }

  #search(decoded: string): { readonly text: string; readonly stopped: boolean } {
    const { text, stopped } = this.#stops.push(decoded);
    return { text: stopped && this.#showsStop ? `${text}${this.#stops.found}` : text, stopped };
  }

  /** Releases held text before a control token: no text spans it. */
  interrupt(): string {
    return this.#flush().text;
  }

  end(): TextPiece & { readonly stopped: boolean } {
    const { text, stopped } = this.#flush();
    return { text, details: this.#release(stopped ? 'stopped' : 'ended'), stopped };
  }

  #flush(): { readonly text: string; readonly stopped: boolean } {
    const last = this.#detokenizer.flush();
    this.#decoded += last.length;
    const { text, stopped } = this.#search(last);
    const rest = stopped ? text : text + this.#stops.flush();
    this.#shown += rest.length;
    return { text: rest, stopped };
  }

  /** Details of tokens whose text is shown; at the end all, but none after a stop string. */
  #release(fate: 'open' | 'ended' | 'stopped'): TokenDetail[] {
    const ready = ({ offset }: TokenDetail) => fate === 'ended' || offset < this.#shown;
    const released = this.#details.filter(ready);
    this.#details = fate === 'open' ? this.#details.filter((detail) => !ready(detail)) : [];
    return released.map((detail) => ({ ...detail, offset: detail.offset + this.#offset }));
  }
}
