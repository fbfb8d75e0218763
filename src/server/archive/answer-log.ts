// Tokens of answers while they are given, and what of them is not written yet. A record of what is new names each answer, so
// that records of many answers, read one after the other, give every answer as far as it had come.

/** Tokens of each choice. */
export type AnswerTokens = readonly (readonly number[])[];

/** Of an answer: from where on, and the tokens, choice by choice. */
type Entry = readonly [id: string, choice: number, from: number, tokens: readonly number[]];

export class AnswerLog {
  readonly #answers = new Map<string, LoggedAnswer>();
  readonly #changed = new Set<LoggedAnswer>();

  get hasNews(): boolean {
    return this.#changed.size > 0;
  }

  has(id: string): boolean {
    return this.#answers.has(id);
  }

  /** Follows an answer from its beginning; who followed it before does so no more. */
  begin(id: string): (choice: number, token: number) => void {
    this.end(id);
    const answer = new LoggedAnswer(id);
    this.#answers.set(id, answer);
    return (choice, token) => {
      if (this.#answers.get(id) !== answer) return;
      answer.add(choice, token);
      this.#changed.add(answer);
    };
  }

  end(id: string): AnswerTokens {
    const answer = this.#answers.get(id);
    if (answer === undefined) return [];
    this.#answers.delete(id);
    this.#changed.delete(answer);
    return answer.tokens;
  }

  /** What has come since the last call; `kept` is called once that is written. */
  takeNews(): { readonly record: Uint8Array; readonly kept: () => void } {
    const changed = [...this.#changed];
    this.#changed.clear();
    const marks = changed.map((answer) => answer.mark());
    return {
      record: recordOf(changed.flatMap((answer) => answer.news())),
      kept: () => {
        for (const [at, answer] of changed.entries()) answer.written = marks[at] as readonly number[];
      },
    };
  }

  /** What was taken is not written. */
  putBack(): void {
    for (const answer of this.#answers.values()) if (answer.hasNews) this.#changed.add(answer);
  }

  /** Everything there is of answers that are followed. */
  all(): Uint8Array {
    return recordOf([...this.#answers.values()].flatMap((answer) => answer.all()));
  }
}

class LoggedAnswer {
  readonly id: string;
  readonly tokens: number[][] = [];
  /** Of each choice, how many tokens are written. */
  written: readonly number[] = [];

  constructor(id: string) {
    this.id = id;
  }

  get hasNews(): boolean {
    return this.tokens.some((tokens, choice) => tokens.length > (this.written[choice] ?? 0));
  }

  add(choice: number, token: number): void {
    while (this.tokens.length <= choice) this.tokens.push([]);
    this.tokens[choice]?.push(token);
  }

  mark(): number[] {
    return this.tokens.map(({ length }) => length);
  }

  news(): Entry[] {
    return this.tokens.flatMap((tokens, choice): Entry[] => {
      const from = this.written[choice] ?? 0;
      return tokens.length === from ? [] : [[this.id, choice, from, tokens.slice(from)]];
    });
  }

  all(): Entry[] {
    return this.tokens.map((tokens, choice): Entry => [this.id, choice, 0, tokens]);
  }
}

function recordOf(entries: readonly Entry[]): Uint8Array {
  return Buffer.from(JSON.stringify(entries));
}

/** Answers as far as the records tell, in the order they were written. */
export function answersIn(records: Iterable<Uint8Array>): ReadonlyMap<string, AnswerTokens> {
  const answers = new Map<string, number[][]>();
  for (const record of records) {
    for (const [id, choice, from, tokens] of JSON.parse(Buffer.from(record).toString()) as Entry[]) {
      const answer = answers.get(id) ?? [];
      answers.set(id, answer);
      while (answer.length <= choice) answer.push([]);
      const known = answer[choice] as number[];
      // A record that was lost leaves a gap: what follows it is of no use.
      if (from > known.length) continue;
      known.length = from;
      for (const token of tokens) known.push(token);
    }
  }
  return answers;
}

/** The longer one of each choice: both are beginnings of the same. */
export function longerOf(one: AnswerTokens, other: AnswerTokens): AnswerTokens {
  return Array.from({ length: Math.max(one.length, other.length) }, (_, choice) => {
    const [first = [], second = []] = [one[choice], other[choice]];
    return first.length >= second.length ? first : second;
  });
}

export function packTokens(tokens: AnswerTokens): Uint8Array {
  return Buffer.from(JSON.stringify(tokens));
}

export function unpackTokens(packed: Uint8Array): AnswerTokens {
  return JSON.parse(Buffer.from(packed).toString()) as AnswerTokens;
}
