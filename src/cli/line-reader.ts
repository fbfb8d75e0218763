// Lines from a person or a program. At a terminal, what is typed during an answer stays hidden until the next prompt, so that
// it does not mix with the answer; Ctrl-C is reported and ends nothing by itself.

import { createInterface, type Interface } from 'node:readline';
import { Writable } from 'node:stream';
import type { ChatHistory } from './chat-history.ts';

export type LineInput = NodeJS.ReadableStream & { readonly isTTY?: boolean };
export type LineOutput = NodeJS.WritableStream & { readonly isTTY?: boolean; readonly columns?: number };

const MOST_HISTORY = 500;

export class LineReader {
  readonly isTerminal: boolean;
  readonly #output: LineOutput;
  readonly #readline: Interface;
  readonly #lines: string[] = [];
  #waiting: ((line: string | undefined) => void) | undefined;
  #ended = false;

  constructor(input: LineInput, output: LineOutput, onInterrupt: () => void, history?: ChatHistory) {
    this.isTerminal = input.isTTY === true && output.isTTY === true;
    this.#output = output;
    this.#readline = createInterface({
      input,
      output: this.#echo(),
      terminal: this.isTerminal,
      removeHistoryDuplicates: true,
      ...(history === undefined ? {} : { history: [...history.lines], historySize: MOST_HISTORY }),
    });
    if (history !== undefined) this.#readline.on('history', (lines: string[]) => history.save(lines));
    this.#readline.on('line', (line) => this.#take(line));
    this.#readline.on('SIGINT', onInterrupt);
    this.#readline.on('close', () => {
      this.#ended = true;
      // Output must not follow the prompt on its line.
      if (this.isTerminal && this.#waiting !== undefined) this.#output.write('\n');
      this.#answer(undefined);
    });
  }

  /** Undefined at the end of the input. The prompt shows only at a terminal. */
  next(prompt: string): Promise<string | undefined> {
    const line = this.#lines.shift();
    if (line !== undefined) {
      if (this.isTerminal) this.#output.write(`${prompt}${line}\n`);
      return Promise.resolve(line);
    }
    if (this.#ended) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      this.#waiting = resolve;
      if (!this.isTerminal) return;
      this.#readline.setPrompt(prompt);
      this.#readline.prompt(true);
    });
  }

  /** Discards the current line and shows the prompt again, below a note. */
  restart(note: string): void {
    if (this.#waiting === undefined || !this.isTerminal) return;
    this.#readline.write(null, { ctrl: true, name: 'e' });
    this.#readline.write(null, { ctrl: true, name: 'u' });
    this.#output.write(`\n${note}\n`);
    this.#readline.prompt();
  }

  close(): void {
    this.#readline.close();
  }

  #take(line: string): void {
    if (this.#waiting === undefined) this.#lines.push(line);
    else this.#answer(line);
  }

  #answer(line: string | undefined): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.(line);
  }

  /** readline echoes to the terminal only while a line is awaited. */
  #echo(): Writable {
    const reader = this;
    const echo = new Writable({
      write(chunk, _encoding, done) {
        if (reader.#waiting !== undefined && reader.isTerminal) reader.#output.write(chunk);
        done();
      },
    });
    return Object.defineProperty(echo, 'columns', { get: () => reader.#output.columns });
  }
}
