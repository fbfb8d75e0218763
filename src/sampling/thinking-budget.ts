// How long an answer may reason: after so many tokens between the marks of reasoning, those that end it come next, and the
// answer goes on. What has come says all, so that another engine goes on in the same way.

export interface ThinkingLimit {
  /** Tokens of reasoning, the marks around it not counted. */
  readonly tokens: number;
  /** The prompt has begun it. */
  readonly opened: boolean;
  /** Token sequences, any of which begins it or ends it. */
  readonly opens: readonly (readonly number[])[];
  readonly closes: readonly (readonly number[])[];
  /** What ends it when the tokens are spent. */
  readonly ending: readonly number[];
}

export class ThinkingBudget {
  readonly #limit: ThinkingLimit;
  readonly #longest: number;
  #last: number[] = [];
  #open: boolean;
  #used = 0;
  /** Tokens of the ending that have come; undefined while it is not due. */
  #ended: number | undefined;

  constructor(limit: ThinkingLimit, answer: Iterable<number> = []) {
    this.#limit = limit;
    this.#longest = Math.max(1, ...[...limit.opens, ...limit.closes].map(({ length }) => length));
    this.#open = limit.opened;
    this.#end();
    for (const token of answer) this.accept(token);
  }

  /** The token that must come next, if there is one. */
  get forced(): number | undefined {
    return this.#ended === undefined ? undefined : this.#limit.ending[this.#ended];
  }

  accept(token: number): void {
    this.#last = [...this.#last, token].slice(-this.#longest);
    if (this.#open) {
      if (this.#endsWith(this.#limit.closes)) this.#open = false;
      else if (this.#ended === undefined) this.#used += 1;
    } else if (this.#ended === undefined && this.#endsWith(this.#limit.opens)) this.#open = true;
    if (this.#ended !== undefined && token === this.forced) this.#ended += 1;
    if (this.#ended === this.#limit.ending.length) {
      this.#ended = undefined;
      this.#open = false;
    }
    this.#end();
  }

  /** As it would be after further tokens. */
  after(tokens: readonly number[]): ThinkingBudget {
    const copy = new ThinkingBudget(this.#limit);
    copy.#last = this.#last;
    copy.#open = this.#open;
    copy.#used = this.#used;
    copy.#ended = this.#ended;
    for (const token of tokens) copy.accept(token);
    return copy;
  }

  #end(): void {
    if (this.#open && this.#used >= this.#limit.tokens) this.#ended ??= 0;
  }

  #endsWith(sequences: ThinkingLimit['opens']): boolean {
    return sequences.some(
      (sequence) =>
        sequence.length <= this.#last.length &&
        sequence.every((token, at) => token === this.#last[this.#last.length - sequence.length + at]),
    );
  }
}
