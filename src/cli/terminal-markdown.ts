// Markdown on a terminal, as it streams: headings and **bold** in bold, `code` and fenced blocks in colour. Everything else
// stays as it was written, but that lines are broken between words, if asked; not those of fenced blocks.

import type { WordWrap } from './word-wrap.ts';

const BOLD = '\x1b[1m';
const NOT_BOLD = '\x1b[22m';
const CODE = '\x1b[36m';
const NOT_CODE = '\x1b[39m';

export class TerminalMarkdown {
  readonly #wrap: WordWrap | undefined;
  /** What has come and could still become a mark. */
  #pending = '';
  #atLineStart = true;
  #inFence = false;
  #heading = false;
  #bold = false;
  #code = false;

  constructor(wrap?: WordWrap) {
    this.#wrap = wrap;
  }

  /** What to print for the next piece of the answer. */
  write(text: string): string {
    this.#pending += text;
    return this.#print(false);
  }

  /** What was held back, and the end of every style. */
  end(): string {
    const rest = this.#print(true) + this.#closeLine() + (this.#inFence ? NOT_CODE : '');
    this.#inFence = false;
    this.#atLineStart = true;
    return rest;
  }

  #print(isLast: boolean): string {
    let out = '';
    while (this.#pending !== '') {
      const printed = (this.#atLineStart ? this.#lineStart(isLast) : undefined) ?? this.#inLine(isLast);
      if (printed === WAIT) break;
      out += this.#wrapped(printed);
    }
    return out;
  }

  #wrapped(text: string): string {
    if (this.#wrap === undefined) return text;
    return this.#inFence ? this.#wrap.pass(text) : this.#wrap.write(text);
  }

  /** Undefined where the line starts with none of its marks. */
  #lineStart(isLast: boolean): string | undefined {
    const pending = this.#pending;
    const fence = /^```[^\n]*\n/.exec(pending)?.[0];
    if (fence !== undefined) {
      this.#inFence = !this.#inFence;
      return this.#inFence ? CODE + this.#take(fence) : `${this.#take(fence).slice(0, -1)}${NOT_CODE}\n`;
    }
    const heading = this.#inFence ? undefined : /^#{1,6} /.exec(pending)?.[0];
    if (heading !== undefined) {
      this.#heading = true;
      this.#atLineStart = false;
      return BOLD + this.#take(heading);
    }
    if (!isLast && /^(`{1,2}|```[^\n]*|#{1,6})$/.test(pending)) return WAIT;
    this.#atLineStart = false;
    return undefined;
  }

  #inLine(isLast: boolean): string {
    const pending = this.#pending;
    if (pending.startsWith('\n')) {
      this.#atLineStart = true;
      return this.#closeLine() + this.#take('\n');
    }
    if (this.#inFence) return this.#takeRun(/^[^\n]+/);
    if (pending.startsWith('`')) return this.#toggleCode();
    if (this.#code) return this.#takeRun(/^[^`\n]+/);
    if (!pending.startsWith('*')) return this.#takeRun(/^[^`*\n]+/);
    if (!isLast && (pending === '*' || (pending === '**' && !this.#bold))) return WAIT;
    // As in `2 ** 3`, what is followed by a space opens nothing.
    if (/^\*\*\S/.test(pending) || (this.#bold && pending.startsWith('**'))) return this.#toggleBold();
    return this.#takeRun(/^\*+/);
  }

  #take(text: string): string {
    this.#pending = this.#pending.slice(text.length);
    return text;
  }

  #takeRun(run: RegExp): string {
    return this.#take(run.exec(this.#pending)?.[0] ?? '');
  }

  #toggleCode(): string {
    this.#take('`');
    this.#code = !this.#code;
    return this.#code ? CODE : NOT_CODE;
  }

  /** A heading is bold already. */
  #toggleBold(): string {
    this.#take('**');
    this.#bold = !this.#bold;
    if (this.#heading) return '';
    return this.#bold ? BOLD : NOT_BOLD;
  }

  /** Bold and inline code end with their line, so that a forgotten mark does not change the rest of the answer. */
  #closeLine(): string {
    const closed = `${this.#code ? NOT_CODE : ''}${this.#bold || this.#heading ? NOT_BOLD : ''}`;
    this.#code = false;
    this.#bold = false;
    this.#heading = false;
    return closed;
  }
}

/** More must come before it is known what to print. */
const WAIT = '\0wait';
