// What a reader has found: parts, joined where they belong together, and the tools that may be called.

import type { AnswerPart, AnswerReader, Tool } from './format.ts';
import type { Reading, Tape } from './tape.ts';

/** A call that is given when it is complete, or when the answer is cut off before that. */
interface PendingCall {
  readonly tool: Tool;
  /** As far as it has come. */
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
    // The longest name first, since one may begin with another.
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

  /** All arguments of the call that began last have come. */
  closeCall(): void {
    this.#hasOpenCall = false;
  }

  get hasOpenCall(): boolean {
    return this.#hasOpenCall;
  }

  /** Of the call that began last. */
  arguments(text: string): void {
    this.#add({ kind: 'arguments', call: this.#calls - 1, text });
  }

  /** A call that is complete, with its arguments as JSON text. */
  whole(tool: Tool, json: string): void {
    this.call(tool);
    this.arguments(json);
    this.closeCall();
  }

  /** The name of a call is known, but it may still turn out to be text. */
  pend(tool: Tool): void {
    this.#pending.push({ tool, json: '', complete: false });
  }

  /** The arguments of the call that was named last, as far as they are known. */
  pendArguments(json: string, complete: boolean): void {
    const last = this.#pending.at(-1);
    if (last !== undefined) Object.assign(last, { json, complete });
  }

  discardPending(): void {
    this.#pending = [];
  }

  /** The answer was cut off: what is known of calls on their way. No arguments at all would read as none needed. */
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

  /** The tool whose name stands here. */
  *named(tape: Tape): Reading<Tool | undefined> {
    for (const tool of this.#tools) if (yield* tape.took(tool.name)) return tool;
    return undefined;
  }

  /** Gives back as text what was taken since the tape last began. */
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

/** Control tokens that are no marks of the format are dropped. */
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
