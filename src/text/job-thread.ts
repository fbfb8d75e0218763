// One thread that does jobs, one after another. Knows nothing of who waits: it is given a job when it is ready for one.

import { type ResourceLimits, type Transferable, Worker } from 'node:worker_threads';

/**
 * What a thread says: that it is ready, then to each job its result, or why there is none, or that it rests, to be taken up
 * again.
 */
export type FromJobThread<Result> =
  | { readonly kind: 'ready' }
  | { readonly kind: 'problem'; readonly message: string }
  | { readonly kind: 'paused' }
  | { readonly kind: 'result'; readonly result: Result };

interface JobThreadListener<Result> {
  ready(): void;
  /** To the job it was given last. */
  answer(result: Result | Error): void;
  /** The job it was given last rests. */
  paused(): void;
  /** It failed or ended by itself; no more is heard from it. */
  lost(error: Error): void;
}

export interface JobThreadOptions<Work> {
  /** The compiled file. */
  readonly entry: URL;
  readonly workerData?: unknown;
  readonly resourceLimits?: ResourceLimits;
  /** What of a job is handed over instead of copied. */
  readonly handedOver?: (work: Work) => readonly Transferable[];
}

export class JobThread<Work, Result> {
  readonly #worker: Worker;
  readonly #options: JobThreadOptions<Work>;
  #listener: JobThreadListener<Result> | undefined;
  #ready = false;

  constructor(options: JobThreadOptions<Work>, listener: JobThreadListener<Result>) {
    this.#options = options;
    this.#listener = listener;
    const { entry, workerData, resourceLimits = {} } = options;
    this.#worker = new Worker(entry, { workerData, resourceLimits });
    this.#worker.on('message', (message: FromJobThread<Result>) => this.#hear(message));
    this.#worker.on('error', (error) =>
      this.#lose(error instanceof Error ? error : new Error(String(error))),
    );
    this.#worker.on('exit', () => this.#lose(new Error('the thread has ended')));
  }

  get ready(): boolean {
    return this.#ready;
  }

  send(work: Work): void {
    this.#worker.postMessage(work, this.#options.handedOver?.(work) ?? []);
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

  #hear(message: FromJobThread<Result>): void {
    if (message.kind === 'ready') {
      this.#ready = true;
      this.#listener?.ready();
    } else if (message.kind === 'paused') this.#listener?.paused();
    else if (message.kind === 'problem') this.#listener?.answer(new Error(message.message));
    else this.#listener?.answer(message.result);
  }

  #lose(error: Error): void {
    const listener = this.#listener;
    this.#listener = undefined;
    listener?.lost(error);
  }
}
