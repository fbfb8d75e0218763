// One answer as text: tokens in; text that is safe to show out, with what is known of its tokens. Text and
// token details that may belong to a stop string wait together.

import type { Logprobs } from '../engine/request.ts';
import { Detokenizer, type DetokenizerOptions } from '../text/detokenizer.ts';
import { StopStrings } from '../text/stop-strings.ts';
import type { Tokenizer } from '../text/tokenizer.ts';

export interface TokenDetail extends Logprobs {
  readonly token: number;
  /** Where its text begins in the answer. */
  readonly offset: number;
}

interface TextPiece {
  readonly text: string;
  readonly details: readonly TokenDetail[];
}

export interface ChoiceTextOptions extends DetokenizerOptions {
  readonly stops: readonly string[];
  /** Stop strings are looked for only behind so many tokens. */
  readonly minTokens: number;
}

export class ChoiceText {
  readonly #detokenizer: Detokenizer;
  readonly #stops: StopStrings;
  readonly #minTokens: number;
  #details: TokenDetail[] = [];
  #tokens = 0;
  #decoded = 0;
  #shown = 0;

  constructor(tokenizer: Tokenizer, { stops, minTokens, ...options }: ChoiceTextOptions) {
    this.#detokenizer = new Detokenizer(tokenizer, options);
    this.#stops = new StopStrings(stops);
    this.#minTokens = minTokens;
  }

  /** The stop string that ended it. */
  get stop(): string | undefined {
    return this.#stops.found;
  }

  push(token: number, logprobs: Logprobs | undefined): TextPiece & { readonly stopped: boolean } {
    if (logprobs !== undefined) this.#details.push({ token, offset: this.#decoded, ...logprobs });
    this.#tokens++;
    const decoded = this.#detokenizer.push(token);
    this.#decoded += decoded.length;
    const early = this.#tokens <= this.#minTokens;
    const { text, stopped } = early ? { text: decoded, stopped: false } : this.#stops.push(decoded);
    this.#shown += text.length;
    return { text, details: this.#release(stopped ? 'stopped' : 'open'), stopped };
  }

  /** What waits for nothing more: a control token that means something comes next, and no text goes across it. */
  interrupt(): string {
    const last = this.#detokenizer.flush();
    this.#decoded += last.length;
    const { text } = this.#stops.push(last);
    const rest = text + this.#stops.flush();
    this.#shown += rest.length;
    return rest;
  }

  /** The rest, where the answer ended without a stop string. */
  end(): TextPiece & { readonly stopped: boolean } {
    const last = this.#detokenizer.flush();
    this.#decoded += last.length;
    const { text, stopped } = this.#stops.push(last);
    const rest = stopped ? text : text + this.#stops.flush();
    this.#shown += rest.length;
    return { text: rest, details: this.#release(stopped ? 'stopped' : 'ended'), stopped };
  }

  /** Details of tokens whose text is shown; at the end all, but none behind a stop string. */
  #release(fate: 'open' | 'ended' | 'stopped'): TokenDetail[] {
    const ready = ({ offset }: TokenDetail) => fate === 'ended' || offset < this.#shown;
    const released = this.#details.filter(ready);
    this.#details = fate === 'open' ? this.#details.filter((detail) => !ready(detail)) : [];
    return released;
  }
}
