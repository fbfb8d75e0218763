// Server-sent events, from bytes as they come. Only their data counts: both protocols name the kind of an event in it, too.

import { StringDecoder } from 'node:string_decoder';
import { UpstreamError } from './upstream-error.ts';

/** Of one event: the arguments of a call may be long, but not this long. */
const MOST_CHARACTERS = 2 * 1024 * 1024;

export class EventStream {
  readonly #decoder = new StringDecoder('utf8');
  #rest = '';
  #data: string[] = [];
  #characters = 0;

  /** The data of events that are complete, however the bytes are cut. */
  push(bytes: Buffer): string[] {
    // A carriage return at the end may be half of a line's end.
    const lines = (this.#rest + this.#decoder.write(bytes)).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? '';
    if (this.#rest.length + this.#characters > MOST_CHARACTERS) throw tooLong();
    const events: string[] = [];
    for (const line of lines) {
      if (line === '') {
        if (this.#data.length > 0) events.push(this.#data.join('\n'));
        this.#data = [];
        this.#characters = 0;
      } else if (line.startsWith('data:')) {
        this.#data.push(line.slice(line[5] === ' ' ? 6 : 5));
        this.#characters += line.length;
        if (this.#characters > MOST_CHARACTERS) throw tooLong();
      }
    }
    return events;
  }
}

function tooLong(): UpstreamError {
  return new UpstreamError('invalid', 'sent an event that is too long');
}
