// Reads blocks in threads: in jobs of some megabytes, so that a long chain that is given up is not read to its end, and a short one
// comes in between.

import { Worker } from 'node:worker_threads';
import type { FromReadThread, ReadThreadData, ToReadThread } from './read-thread.ts';
import type { ReadBlock, WantedBlock } from './record-reader.ts';

const entry = new URL('../../dist/block-store/read-thread.js', import.meta.url);

const JOB_BYTES = 4 * 2 ** 20;

interface Job {
  readonly wanted: readonly WantedBlock[];
  readonly isGivenUp: () => boolean;
  /** Undefined where it was given up. */
  readonly settle: (blocks: readonly ReadBlock[] | undefined) => void;
}

interface ReadThread {
  readonly worker: Worker;
  readonly jobs: Map<number, Job>;
}

export class ReadQueue {
  readonly #data: ReadThreadData;
  readonly #threadCount: number;
  readonly #threads = new Set<ReadThread>();
  /** A list for each caller: they take turns. */
  readonly #callers: Job[][] = [];
  #jobs = 0;
  #givenBack = 0;
  #isClosed = false;
  #beganMs: number | undefined;
  #readMs = 0;

  constructor(data: ReadThreadData, threadCount: number) {
    this.#data = data;
    this.#threadCount = threadCount;
  }

  /** In which at least one block was being read. */
  get readMs(): number {
    return this.#readMs + (this.#beganMs === undefined ? 0 : performance.now() - this.#beganMs);
  }

  /** In the order of what is wanted; `unread` where the queue is closed. */
  async read(wanted: readonly WantedBlock[], signal: AbortSignal | undefined): Promise<ReadBlock[]> {
    signal?.throwIfAborted();
    const jobs: Job[] = [];
    const parts = jobsOf(wanted).map(
      (some) =>
        new Promise<readonly ReadBlock[] | undefined>((settle) => {
          jobs.push({ wanted: some, isGivenUp: () => signal?.aborted === true, settle });
        }),
    );
    if (jobs.length > 0) this.#callers.push(jobs);
    this.#advance();
    const all = Promise.all(parts);
    const results = await (signal === undefined ? all : Promise.race([all, aborted(signal, all)]));
    signal?.throwIfAborted();
    return results.flatMap((blocks) => blocks ?? []);
  }

  /** See BlockTier. */
  giveBack(blocks: readonly Uint8Array[]): void {
    const thread = [...this.#threads][this.#givenBack++ % this.#threads.size];
    if (thread === undefined) return;
    const buffers = blocks.map(({ buffer }) => buffer as ArrayBuffer);
    const message: ToReadThread = { kind: 'free', buffers };
    thread.worker.postMessage(message, buffers);
  }

  /** Readers are told that nothing could be read. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const threads = [...this.#threads];
    for (const thread of threads) this.#lose(thread);
    await Promise.all(threads.map(({ worker }) => worker.terminate()));
  }

  #advance(): void {
    for (;;) {
      const thread = this.#isClosed || this.#callers.length === 0 ? undefined : this.#idleThread();
      if (thread === undefined && !this.#isClosed) break;
      const job = this.#nextJob();
      if (job === undefined) break;
      if (thread === undefined) job.settle(job.wanted.map(() => 'unread'));
      else this.#send(thread, job);
    }
    this.#keepTime();
  }

  #nextJob(): Job | undefined {
    for (let jobs = this.#callers.shift(); jobs !== undefined; jobs = this.#callers.shift()) {
      const job = jobs.shift();
      if (jobs.length > 0) this.#callers.push(jobs);
      if (job?.isGivenUp()) job.settle(undefined);
      else if (job !== undefined) return job;
    }
    return undefined;
  }

  #send(thread: ReadThread, job: Job): void {
    const number = this.#jobs++;
    thread.jobs.set(number, job);
    // Someone waits for it.
    thread.worker.ref();
    const message: ToReadThread = { kind: 'read', job: number, wanted: job.wanted };
    thread.worker.postMessage(message);
  }

  #idleThread(): ReadThread | undefined {
    for (const thread of this.#threads) if (thread.jobs.size === 0) return thread;
    return this.#threads.size < this.#threadCount ? this.#start() : undefined;
  }

  #start(): ReadThread {
    const worker = new Worker(entry, { workerData: this.#data });
    const thread = { worker, jobs: new Map<number, Job>() };
    this.#threads.add(thread);
    worker.on('message', ({ job: number, blocks }: FromReadThread) => {
      const job = thread.jobs.get(number);
      thread.jobs.delete(number);
      if (thread.jobs.size === 0) worker.unref();
      job?.settle(blocks);
      this.#advance();
    });
    // The next read starts another one.
    worker.on('error', () => this.#lose(thread));
    worker.on('exit', () => this.#lose(thread));
    return thread;
  }

  #lose(thread: ReadThread): void {
    if (!this.#threads.delete(thread)) return;
    for (const job of thread.jobs.values()) job.settle(job.wanted.map(() => 'unread'));
    thread.jobs.clear();
    this.#advance();
  }

  #keepTime(): void {
    const isReading = [...this.#threads].some(({ jobs }) => jobs.size > 0);
    if (isReading) this.#beganMs ??= performance.now();
    else if (this.#beganMs !== undefined) {
      this.#readMs += performance.now() - this.#beganMs;
      this.#beganMs = undefined;
    }
  }
}

function jobsOf(wanted: readonly WantedBlock[]): WantedBlock[][] {
  const jobs: WantedBlock[][] = [];
  let bytes = 0;
  for (const block of wanted) {
    const last = jobs.at(-1);
    bytes += block.bytes;
    if (last !== undefined && bytes <= JOB_BYTES) last.push(block);
    else {
      jobs.push([block]);
      bytes = block.bytes;
    }
  }
  return jobs;
}

/** Rejects once the signal is aborted; does not outlive `ended`. */
function aborted(signal: AbortSignal, ended: Promise<unknown>): Promise<never> {
  return new Promise((_, reject) => {
    const leave = () => reject(signal.reason);
    signal.addEventListener('abort', leave, { once: true });
    ended.finally(() => signal.removeEventListener('abort', leave));
  });
}
