// An answer on its way: pieces to read as they come, or the whole to wait for. It starts at once, whether anyone
// reads or not, and an abort ends it at once, even while nobody reads.

import { setMaxListeners } from 'node:events';
import { asLibraryError } from './chairlift-error.ts';

/**
 * Iterate it for the pieces; every loop begins with the first one. Leaving a loop early ends the answer. A failure
 * or an abort throws in the loop and rejects `result()`.
 */
export interface Answer<Piece, Result> extends AsyncIterable<Piece> {
  result(): Promise<Result>;
}

/** Yields pieces and returns the whole; the signal ends it. */
export type AnswerSource<Piece, Result> = (signal: AbortSignal) => AsyncGenerator<Piece, Result, void>;

export class RunningAnswer<Piece, Result> implements Answer<Piece, Result> {
  readonly #pieces: Piece[] = [];
  readonly #readers: (() => void)[] = [];
  readonly #abort = new AbortController();
  readonly #result: Promise<Result>;
  #ended = false;

  constructor(source: AnswerSource<Piece, Result>, signals: readonly AbortSignal[]) {
    this.#result = this.#run(source, signals);
    // Readers, if there are any, get the error.
    this.#result.catch(() => {});
  }

  result(): Promise<Result> {
    return this.#result;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Piece, void, void> {
    let at = 0;
    try {
      while (!this.#ended || at < this.#pieces.length) {
        this.#abort.signal.throwIfAborted();
        if (at < this.#pieces.length) yield this.#pieces[at++] as Piece;
        else await new Promise<void>((resolve) => this.#readers.push(resolve));
      }
      await this.#result;
    } finally {
      if (!this.#ended) this.#abort.abort();
    }
  }

  async #run(source: AnswerSource<Piece, Result>, signals: readonly AbortSignal[]): Promise<Result> {
    const links: (() => void)[] = [];
    try {
      for (const signal of signals) links.push(link(signal, this.#abort));
      this.#abort.signal.throwIfAborted();
      const pieces = source(this.#abort.signal);
      for (let next = await pieces.next(); ; next = await pieces.next()) {
        if (next.done) return next.value;
        this.#pieces.push(next.value);
        this.#wakeReaders();
      }
    } catch (error) {
      throw this.#abort.signal.aborted ? this.#abort.signal.reason : asLibraryError(error);
    } finally {
      this.#ended = true;
      for (const cut of links) cut();
      this.#wakeReaders();
    }
  }

  #wakeReaders(): void {
    for (const wake of this.#readers.splice(0)) wake();
  }
}

/** The first releases of Node 20 lack `AbortSignal.any`. */
function link(signal: AbortSignal, controller: AbortController): () => void {
  const abort = () => controller.abort(signal.reason);
  // Many answers may share one signal; Node would warn of a leak.
  setMaxListeners(0, signal);
  if (signal.aborted) abort();
  signal.addEventListener('abort', abort, { once: true });
  return () => signal.removeEventListener('abort', abort);
}
