// Collects the parts that a reader finds, joining neighbours of one kind.

import type { AnswerPart, AnswerReader, Tool } from './answer-part.ts';
import type { Reading, Tape } from './tape.ts';

/** A call that is emitted when it is complete or the answer is cut off. */
interface PendingCall {
  readonly tool: Tool;
  json: string;
  complete: boolean;
}

export class AnswerWriter {
  #parts: AnswerPart[] = [];
  #calls = 0;
  #hasOpenCall = false;
  #pending: PendingCall[] = [];
  readonly #tools: readonly Tool[];

  constructor(tools: readonly Tool[]) {
    // One name may begin with another.
    this.#tools = [...tools].sort((a, b) => b.name.length - a.name.length);
  }

  content(text: string): void {
    this.#add({ kind: 'content', text });
  }

  reasoning(text: string): void {
    this.#add({ kind: 'reasoning', text });
  }

  call(tool: Tool): void {
    this.discardPending();
    this.#hasOpenCall = true;
    this.#parts.push({ kind: 'call', call: this.#calls++, name: tool.name });
  }

  closeCall(): void {
    this.#hasOpenCall = false;
  }

  get hasOpenCall(): boolean {
    return this.#hasOpenCall;
  }

  arguments(text: string): void {
    this.#add({ kind: 'arguments', call: this.#calls - 1, text });
  }

  whole(tool: Tool, json: string): void {
    this.call(tool);
    this.arguments(json);
    this.closeCall();
  }

  /** The call may still turn out to be text. */
  pend(tool: Tool): void {
    this.#pending.push({ tool, json: '', complete: false });
  }

  pendArguments(json: string, complete: boolean): void {
    const last = this.#pending.at(-1);
    if (last !== undefined) Object.assign(last, { json, complete });
  }

  discardPending(): void {
    this.#pending = [];
  }

  /** The answer was cut off: emits pending calls. Empty arguments would mean that none are needed. */
  cut(): void {
    for (const { tool, json, complete } of this.#pending) {
      this.call(tool);
      this.arguments(json === '' ? '{' : json);
      if (complete) this.closeCall();
    }
  }

  find(name: string): Tool | undefined {
    return this.#tools.find((tool) => tool.name === name);
  }

  *named(tape: Tape): Reading<Tool | undefined> {
    for (const tool of this.#tools) if (yield* tape.took(tool.name)) return tool;
    return undefined;
  }

  /** Emits as text what was taken since `tape.begin`. */
  spill(tape: Tape): void {
    this.discardPending();
    this.content(tape.taken());
    tape.begin();
  }

  release(): AnswerPart[] {
    const parts = this.#parts;
    this.#parts = [];
    return parts;
  }

  #add(part: Exclude<AnswerPart, { kind: 'call' }>): void {
    if (part.text === '') return;
    const last = this.#parts.at(-1);
    if (last?.kind !== part.kind) this.#parts.push(part);
    else this.#parts[this.#parts.length - 1] = { ...part, text: last.text + part.text };
  }
}

/** Drops control tokens that are no marks of the format. */
export function answerReader(
  tape: Tape,
  writer: AnswerWriter,
  marks: ReadonlySet<string>,
  reading: Reading,
): AnswerReader {
  return {
    push(text, control) {
      if (control && !marks.has(text)) return [];
      tape.feed(text, control);
      reading.next();
      return writer.release();
    },
    end(cut) {
      if (cut && tape.isUndecided) writer.cut();
      else {
        tape.end();
        reading.next();
      }
      return writer.release();
    },
    get hasOpenCall() {
      return writer.hasOpenCall;
    },
  };
}
