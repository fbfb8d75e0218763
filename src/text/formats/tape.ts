// An answer symbol by symbol. Readers are generators that read as if all of it were there and yield where it is not:
// a reader cannot depend on how the answer was cut.

export type Reading<T = void> = Generator<void, T, void>;

export class Tape {
  /** Single UTF-16 units of text, and control tokens whole. */
  #symbols: string[] = [];
  #next = 0;
  #begin = 0;
  #ended = false;
  readonly isControl: (mark: string) => boolean;

  constructor(isControl: (mark: string) => boolean) {
    this.isControl = isControl;
  }

  feed(text: string, control: boolean): void {
    if (this.#begin > 0) {
      this.#symbols.splice(0, this.#begin);
      this.#next -= this.#begin;
      this.#begin = 0;
    }
    if (control) this.#symbols.push(text);
    else for (let index = 0; index < text.length; index++) this.#symbols.push(text.charAt(index));
  }

  end(): void {
    this.#ended = true;
  }

  /** `taken` counts from here. */
  begin(): void {
    this.#begin = this.#next;
  }

  get isUndecided(): boolean {
    return this.#begin < this.#symbols.length;
  }

  taken(): string {
    return this.#symbols.slice(this.#begin, this.#next).join('');
  }

  /** Undefined at the end of the answer. */
  *peek(ahead = 0): Reading<string | undefined> {
    while (this.#next + ahead >= this.#symbols.length && !this.#ended) yield;
    return this.#symbols[this.#next + ahead];
  }

  take(): string {
    const symbol = this.#symbols[this.#next];
    if (symbol === undefined) throw new Error('a symbol was taken that is not there');
    this.#next++;
    return symbol;
  }

  /** Available text without these symbols and control tokens: the fast path. */
  plain(stops: ReadonlySet<string>): string {
    const from = this.#next;
    for (;;) {
      const symbol = this.#symbols[this.#next];
      if (symbol === undefined || symbol.length > 1 || stops.has(symbol)) break;
      this.#next++;
    }
    return this.#symbols.slice(from, this.#next).join('');
  }

  *at(mark: string): Reading<boolean> {
    return (yield* this.#measure(mark, 0)) > 0;
  }

  /** Takes all of these marks in sequence, or nothing. */
  *took(...marks: readonly string[]): Reading<boolean> {
    let length = 0;
    for (const mark of marks) {
      const found = yield* this.#measure(mark, length);
      if (found === 0) return false;
      length += found;
    }
    this.#next += length;
    return true;
  }

  *tookAny(marks: readonly string[]): Reading<boolean> {
    for (const mark of marks) if (yield* this.took(mark)) return true;
    return false;
  }

  /** Takes the mark and blanks before it, or nothing. */
  *tookBehindSpace(mark: string): Reading<boolean> {
    let ahead = 0;
    while (isSpace((yield* this.peek(ahead)) ?? '')) ahead++;
    const found = yield* this.#measure(mark, ahead);
    if (found > 0) this.#next += ahead + found;
    return found > 0;
  }

  *skipSpace(): Reading {
    for (;;) {
      const symbol = yield* this.peek();
      if (symbol === undefined || !isSpace(symbol)) return;
      this.#next++;
    }
  }

  /** The text before the mark, which is taken, too; undefined where it never comes. */
  *until(mark: string): Reading<string | undefined> {
    const from = this.#next - this.#begin;
    for (;;) {
      const end = this.#next;
      if (yield* this.took(mark)) return this.#symbols.slice(this.#begin + from, end).join('');
      if ((yield* this.peek()) === undefined) return undefined;
      this.#next++;
    }
  }

  /** The number of symbols; 0 where the mark does not follow. */
  *#measure(mark: string, ahead: number): Reading<number> {
    if ((yield* this.peek(ahead)) === mark) return 1;
    if (this.isControl(mark)) return 0;
    for (let index = 0; index < mark.length; index++)
      if ((yield* this.peek(ahead + index)) !== mark.charAt(index)) return 0;
    return mark.length;
  }
}

/** Blanks, and first symbols of marks. */
export function stopsOf(marks: readonly string[]): ReadonlySet<string> {
  return new Set([' ', '\n', '\r', '\t', ...marks.map((mark) => mark.charAt(0))]);
}

export function isSpace(symbol: string): boolean {
  return symbol === ' ' || symbol === '\n' || symbol === '\r' || symbol === '\t';
}
