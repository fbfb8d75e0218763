// A thread that runs one job at a time.

import { type ResourceLimits, type Transferable, Worker } from 'node:worker_threads';

/** `ready` first; then for each job its result, an error, or `paused`. */
export type FromJobThread<Result> =
  | { readonly kind: 'ready' }
  | { readonly kind: 'problem'; readonly message: string }
  | { readonly kind: 'paused' }
  | { readonly kind: 'result'; readonly result: Result };

interface JobThreadListener<Result> {
  ready(): void;
  /** For the last job. */
  answer(result: Result | Error): void;
  paused(): void;
  /** It failed or ended by itself; the last call. */
  lost(error: Error): void;
}

export interface JobThreadOptions<Work> {
  /** The compiled file. */
  readonly entry: URL;
  readonly workerData?: unknown;
  readonly resourceLimits?: ResourceLimits;
  /** Transferred instead of copied. */
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

  /** Whether it keeps the process alive. */
  hold(on: boolean): void {
    if (on) this.#worker.ref();
    else this.#worker.unref();
  }

  /** The listener is not called any more. */
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
