// One thread with one model's tokenizer. Knows nothing of who waits: it is given a job when it is ready for one.

import { Worker } from 'node:worker_threads';
import type { EncodeResult, EncodeWork, FromEncodeWorker } from './encode-worker.ts';

// The compiled file, from wherever this one runs.
const entry = new URL('../../dist/text/encode-worker.js', import.meta.url);

export interface EncodeThreadListener {
  /** The tokenizer is open. */
  ready(): void;
  /** To the job it was given last. */
  answer(result: EncodeResult | Error): void;
  /** It failed or ended by itself; no more is heard from it. */
  lost(error: Error): void;
}

export class EncodeThread {
  readonly #worker: Worker;
  #listener: EncodeThreadListener | undefined;
  #ready = false;

  constructor(path: string, listener: EncodeThreadListener) {
    this.#listener = listener;
    this.#worker = new Worker(entry, { workerData: path });
    this.#worker.on('message', (message: FromEncodeWorker) => this.#hear(message));
    this.#worker.on('error', (error) =>
      this.#lose(error instanceof Error ? error : new Error(String(error))),
    );
    this.#worker.on('exit', () => this.#lose(new Error('the encoding thread has ended')));
  }

  get ready(): boolean {
    return this.#ready;
  }

  send(work: EncodeWork): void {
    this.#worker.postMessage(work, work.kind === 'decode' ? [work.ids.buffer] : []);
  }

  /** Whether the process stays alive for it. */
  hold(on: boolean): void {
    if (on) this.#worker.ref();
    else this.#worker.unref();
  }

  /** Ends it, in the middle of a job or not; its listener hears nothing more. */
  async end(): Promise<void> {
    this.#listener = undefined;
    await this.#worker.terminate();
  }

  #hear(message: FromEncodeWorker): void {
    if (message.kind === 'ready') {
      this.#ready = true;
      this.#listener?.ready();
    } else if (message.kind === 'problem') this.#listener?.answer(new Error(message.message));
    else this.#listener?.answer(message);
  }

  #lose(error: Error): void {
    const listener = this.#listener;
    this.#listener = undefined;
    listener?.lost(error);
  }
}
