// Server-sent events as bytes come in: gives the data of every event that a piece of the stream completes.

import { StringDecoder } from 'node:string_decoder';

export class EventReader {
  readonly #decoder = new StringDecoder('utf8');
  #rest = '';
  #data: string[] = [];

  /** However the bytes are cut, also within a character or a line's end. */
  push(bytes: Buffer): string[] {
    return this.#take(this.#decoder.write(bytes));
  }

  /** What was left without its closing empty line. */
  end(): string[] {
    return this.#take(`${this.#decoder.end()}\n\n`);
  }

  #take(text: string): string[] {
    // A carriage return at the end may be half of a line's end.
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? '';
    const events: string[] = [];
    for (const line of lines) {
      if (line.startsWith('data:')) this.#data.push(line.slice(line[5] === ' ' ? 6 : 5));
      else if (line === '' && this.#data.length > 0) {
        events.push(this.#data.join('\n'));
        this.#data = [];
      }
    }
    return events;
  }
}
