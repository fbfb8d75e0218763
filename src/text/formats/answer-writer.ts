// What a reader has found: parts, joined where they belong together, and the tools that may be called.

import type { AnswerPart, AnswerReader, Tool } from './format.ts';
import type { Reading, Tape } from './tape.ts';

export class AnswerWriter {
  #parts: AnswerPart[] = [];
  #calls = 0;
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
    this.#parts.push({ kind: 'call', call: this.#calls++, name: tool.name });
  }

  /** Of the call that began last. */
  arguments(text: string): void {
    this.#add({ kind: 'arguments', call: this.#calls - 1, text });
  }

  /** A call that is complete, with its arguments as JSON text. */
  whole(tool: Tool, json: string): void {
    this.call(tool);
    this.arguments(json);
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
    end() {
      tape.end();
      reading.next();
      return writer.release();
    },
  };
}
