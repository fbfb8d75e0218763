// Encodes texts of any length without holding up the event loop: short ones at once, long ones in a thread that
// opens the same model's tokenizer. The thread starts with the first long text and ends after a quiet minute.

import { Worker } from 'node:worker_threads';
import type { EncodeAnswer, EncodeJob } from './encode-worker.ts';
import type { EncodeOptions, Tokenizer } from './tokenizer.ts';

/** Shorter texts take less than a few milliseconds, about what the way to a thread and back costs. */
const INLINE_CHARACTERS = 8192;
const QUIET_MS = 60_000;

// The compiled file, from wherever this one runs.
const entry = new URL('../../dist/text/encode-worker.js', import.meta.url);

export interface TextModel {
  readonly path: string;
  readonly tokenizer: Tokenizer;
}

interface Job {
  readonly resolve: (ids: Int32Array) => void;
  readonly reject: (error: Error) => void;
}

export class EncodeWorkers {
  readonly #threads = new Map<string, EncodeThread>();

  async encode(model: TextModel, text: string, options: EncodeOptions): Promise<Int32Array> {
    if (text.length <= INLINE_CHARACTERS) return model.tokenizer.encode(text, options);
    return this.#thread(model.path).encode(text, options);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#threads.values()].map((thread) => thread.close()));
  }

  #thread(path: string): EncodeThread {
    const known = this.#threads.get(path);
    if (known !== undefined) return known;
    const thread = new EncodeThread(path, () => {
      if (this.#threads.get(path) === thread) this.#threads.delete(path);
    });
    this.#threads.set(path, thread);
    return thread;
  }
}

class EncodeThread {
  readonly #worker: Worker;
  readonly #jobs = new Map<number, Job>();
  readonly #gone: () => void;
  #tickets = 0;
  #quiet: NodeJS.Timeout | undefined;

  constructor(path: string, gone: () => void) {
    this.#gone = gone;
    this.#worker = new Worker(entry, { workerData: path });
    this.#worker.unref();
    this.#worker.on('message', (answer: EncodeAnswer) => this.#settle(answer));
    this.#worker.on('error', (error) => this.#end(error instanceof Error ? error : new Error(String(error))));
    this.#worker.on('exit', () => this.#end(new Error('the encoding thread has ended')));
  }

  encode(text: string, options: EncodeOptions): Promise<Int32Array> {
    clearTimeout(this.#quiet);
    const ticket = ++this.#tickets;
    return new Promise((resolve, reject) => {
      this.#jobs.set(ticket, { resolve, reject });
      this.#worker.postMessage({ ticket, text, options } satisfies EncodeJob);
    });
  }

  async close(): Promise<void> {
    clearTimeout(this.#quiet);
    await this.#worker.terminate();
  }

  #settle(answer: EncodeAnswer): void {
    const job = this.#jobs.get(answer.ticket);
    this.#jobs.delete(answer.ticket);
    if ('ids' in answer) job?.resolve(answer.ids);
    else job?.reject(new Error(answer.problem));
    if (this.#jobs.size > 0) return;
    this.#quiet = setTimeout(() => {
      this.#gone();
      this.close();
    }, QUIET_MS).unref();
  }

  #end(error: Error): void {
    clearTimeout(this.#quiet);
    this.#gone();
    for (const { reject } of this.#jobs.values()) reject(error);
    this.#jobs.clear();
  }
}
