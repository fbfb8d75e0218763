// The log goes to standard error without blocking the server. What cannot be written, since the terminal is closed or the pipe
// is not read, is dropped: a log never holds up or ends the server.

import { constants, fstatSync, openSync, write, writeSync } from 'node:fs';

/** The most kept for a reader that does not read. */
const MOST_WAITING = 1024 * 1024;
const RETRY_MS = 50;
/** How long a slow reader is waited for when the process ends. */
const LAST_WORDS_MS = 200;

export class LogDestination {
  readonly #descriptor: number;
  readonly #mostWaiting: number;
  #waiting = '';
  #writing = false;
  #isLost = false;

  constructor(descriptor = 2, mostWaiting = MOST_WAITING) {
    this.#descriptor = withoutBlocking(descriptor);
    this.#mostWaiting = mostWaiting;
  }

  write(text: string): void {
    if (this.#isLost || this.#waiting.length + text.length > this.#mostWaiting) return;
    this.#waiting += text;
    if (!this.#writing) this.#writeOn(this.#take());
  }

  /** Blocks for a moment at most. */
  flushSync(): void {
    const endMs = performance.now() + LAST_WORDS_MS;
    for (let rest = this.#take(); rest.length > 0 && !this.#isLost; ) {
      try {
        rest = rest.subarray(writeSync(this.#descriptor, rest));
      } catch (error) {
        if (!isFull(error) || performance.now() > endMs) return;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
      }
    }
  }

  #take(): Buffer {
    const text = this.#waiting;
    this.#waiting = '';
    return Buffer.from(text);
  }

  #writeOn(bytes: Buffer): void {
    this.#writing = bytes.length > 0;
    if (!this.#writing) return;
    write(this.#descriptor, bytes, (error, written) => {
      if (error === null) {
        const rest = bytes.subarray(written);
        this.#writeOn(rest.length > 0 ? rest : this.#take());
      } else if (isFull(error)) setTimeout(() => this.#writeOn(bytes), RETRY_MS).unref();
      else this.#drop(error);
    });
  }

  #drop({ code }: NodeJS.ErrnoException): void {
    this.#writing = false;
    this.#waiting = '';
    // A disk may have room again; a reader that is gone does not come back.
    this.#isLost = code !== 'ENOSPC' && code !== 'EDQUOT';
  }
}

function isFull(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'EAGAIN';
}

/**
 * The same pipe or terminal, opened again as non-blocking: changing the descriptor itself would change it for the
 * processes that share it. Falls back to the descriptor.
 */
function withoutBlocking(descriptor: number): number {
  try {
    const kind = fstatSync(descriptor);
    if (!kind.isFIFO() && !kind.isCharacterDevice()) return descriptor;
    const { O_WRONLY, O_NONBLOCK, O_NOCTTY } = constants;
    return openSync(`/proc/self/fd/${descriptor}`, O_WRONLY | O_NONBLOCK | O_NOCTTY);
  } catch {
    return descriptor;
  }
}
