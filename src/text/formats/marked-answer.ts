// Most models' answers: reasoning between marks, then text with calls between marks of their own.

import { AnswerWriter, answerReader } from './answer-writer.ts';
import type { AnswerFormat, FormatName, ReaderOptions, ToolFormat } from './format.ts';
import {
  afterReasoning,
  opensReasoning,
  type ReasoningFormat,
  readReasoning,
  reasoningMarks,
  thinkingMarks,
  tookOpen,
} from './reasoning.ts';
import { isSpace, type Reading, stopsOf, Tape } from './tape.ts';

export function markedAnswer(calls: ToolFormat, reasoning: ReasoningFormat | undefined): AnswerFormat {
  const marks = [...calls.marks, ...(reasoning === undefined ? [] : reasoningMarks(reasoning))];
  const name: FormatName = calls.name;
  return {
    name,
    reasons: reasoning !== undefined,
    marks,
    thinking: reasoning && thinkingMarks(reasoning),
    opened: (promptEnd) => reasoning !== undefined && opensReasoning(reasoning, promptEnd),
    grammar({ tools, mode, parallel, opened }) {
      const body = calls.grammar(tools, mode, parallel);
      return reasoning === undefined ? body : afterReasoning(reasoning, body, opened);
    },
    wrapped: (body, opened) => (reasoning === undefined ? body : afterReasoning(reasoning, body, opened)),
    reader(options) {
      const tape = new Tape(options.isControl);
      const writer = new AnswerWriter(options.tools);
      const reading = new MarkedReading(tape, writer, calls, reasoning, options);
      return answerReader(tape, writer, new Set(marks), reading.run());
    },
  };
}

class MarkedReading {
  readonly #tape: Tape;
  readonly #writer: AnswerWriter;
  readonly #calls: ToolFormat | undefined;
  readonly #reasoning: ReasoningFormat | undefined;
  readonly #opened: boolean;
  readonly #stops: ReadonlySet<string>;
  /** Nothing but reasoning so far. */
  #fresh = true;
  /** Blanks, dropped where a call follows. */
  #held = '';
  /** Whether a call came last, blanks aside. */
  #called = false;
  /** Whether the answer is between marks. */
  #enclosed = false;

  constructor(
    tape: Tape,
    writer: AnswerWriter,
    calls: ToolFormat,
    reasoning: ReasoningFormat | undefined,
    { tools, thinks, promptEnd }: ReaderOptions,
  ) {
    this.#tape = tape;
    this.#writer = writer;
    this.#calls = tools.length > 0 ? calls : undefined;
    this.#reasoning = thinks ? reasoning : undefined;
    this.#stops = stopsOf([...calls.marks, ...(reasoning === undefined ? [] : reasoningMarks(reasoning))]);
    this.#opened = reasoning !== undefined && opensReasoning(reasoning, promptEnd);
  }

  *run(): Reading {
    if (this.#opened) yield* this.#reason();
    for (;;) {
      this.#tape.begin();
      const symbol = yield* this.#tape.peek();
      if (symbol === undefined) return this.#finish();
      // At the beginning of an answer, calls need no mark.
      const plain = this.#fresh ? '' : this.#tape.plain(this.#stops);
      if (plain !== '') this.#text(plain);
      else if (isSpace(symbol)) this.#held += this.#tape.take();
      else if (yield* this.#tookReasoning()) continue;
      else if (yield* this.#tookCalls()) continue;
      else this.#text(this.#tape.taken() || this.#tape.take());
    }
  }

  *#tookReasoning(): Reading<boolean> {
    const format = this.#reasoning;
    if (format === undefined) return false;
    if (yield* tookOpen(format, this.#tape, this.#fresh)) {
      if (!this.#fresh) this.#writer.content(this.#held);
      yield* this.#reason();
      return true;
    }
    // The model may repeat a close that the prompt has.
    if (this.#fresh && (yield* this.#tape.tookAny(format.closes))) {
      this.#held = '';
      yield* this.#tape.skipSpace();
      return true;
    }
    if (!this.#enclosed || !(yield* this.#tape.took(format.answer?.close ?? ''))) return false;
    this.#held = '';
    return true;
  }

  *#reason(): Reading {
    const format = this.#reasoning;
    this.#held = '';
    if (format === undefined) return;
    yield* readReasoning(format, this.#tape, this.#writer);
    if (format.answer === undefined) return;
    this.#enclosed = yield* this.#tape.took(format.answer.open);
    if (this.#enclosed) yield* this.#tape.skipSpace();
  }

  *#tookCalls(): Reading<boolean> {
    if (this.#calls === undefined) return false;
    const read = yield* this.#calls.read(this.#tape, this.#writer, this.#fresh);
    if (!read) {
      this.#writer.discardPending();
      return false;
    }
    this.#held = '';
    this.#called = true;
    this.#fresh = false;
    return true;
  }

  #text(text: string): void {
    this.#writer.content(this.#held + text);
    this.#held = '';
    this.#called = false;
    this.#fresh = false;
  }

  #finish(): void {
    if (!this.#called) this.#writer.content(this.#held);
  }
}
