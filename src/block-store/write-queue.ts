// What waits to be written, no more than so many bytes, and the thread that writes it. When a write fails everything is dropped
// for a while; then one block tries again.

import { Worker } from 'node:worker_threads';
import { Fifo } from './fifo.ts';
import type { StoreLimits } from './room.ts';
import type { BlockToWrite } from './store-writer.ts';
import type { FromWriteThread, OpenedStore, ToWriteThread, WriteThreadData } from './write-thread.ts';

const entry = new URL('../../dist/block-store/write-thread.js', import.meta.url);

type Written = Extract<FromWriteThread, { kind: 'written' }>;
type Changes = Extract<FromWriteThread, { kind: 'changes' }>;

/** What is known of a block whose bytes may be in the other thread. */
export interface QueuedBlock {
  readonly kind: BlockToWrite['kind'];
  readonly key: Uint8Array;
  readonly bytes: number;
}

export interface WriteQueueListener {
  changes(changes: Changes): void;
  written(written: Written, blocks: readonly QueuedBlock[]): void;
  dropped(blocks: readonly QueuedBlock[]): void;
  /** What operators should know. */
  warn(message: string): void;
}

export interface WriteQueueOptions {
  readonly folder: string;
  readonly model: string;
  readonly keyFile: string;
  readonly limits: StoreLimits;
  readonly followMs: number;
  readonly queueBytes: number;
  /** After a write that failed. */
  readonly pauseMs: number;
}

interface Opening {
  resolve(store: OpenedStore): void;
  reject(error: Error): void;
}

interface Call {
  resolve(result: number): void;
  reject(error: Error): void;
}

export class WriteQueue {
  readonly #options: WriteQueueOptions;
  readonly #listener: WriteQueueListener;
  readonly #worker: Worker;
  readonly #abandoned = new Int32Array(new SharedArrayBuffer(4));
  readonly #calls = new Map<number, Call>();
  #callCount = 0;
  /** Given to the thread, oldest first. */
  readonly #queue = new Fifo<QueuedBlock>();
  #queuedBytes = 0;
  #pausedUntilMs = 0;
  /** The last write failed. */
  #isFailing = false;
  /** Since a write failed and that was said; until writes have worked for a while, so that a disk at its brink is told of once. */
  #isReported = false;
  #worksSinceMs = 0;
  #isClosed = false;
  #isOpening = true;
  #opening: Opening = { resolve: () => {}, reject: () => {} };

  private constructor(options: WriteQueueOptions, listener: WriteQueueListener) {
    this.#options = options;
    this.#listener = listener;
    const { folder, model, keyFile, limits, followMs } = options;
    const workerData: WriteThreadData = {
      ...{ folder, model, keyFile, limits, followMs },
      abandoned: this.#abandoned,
    };
    this.#worker = new Worker(entry, { workerData });
    this.#worker.on('message', (message: FromWriteThread) => this.#hear(message));
    this.#worker.on('error', (error) => this.#lose(error instanceof Error ? error.message : String(error)));
    this.#worker.on('exit', () => this.#lose('its thread has ended'));
  }

  static async open(options: WriteQueueOptions, listener: WriteQueueListener) {
    const queue = new WriteQueue(options, listener);
    const opened = await new Promise<OpenedStore>((resolve, reject) => {
      queue.#opening = { resolve, reject };
    });
    return { queue, opened };
  }

  get queuedBytes(): number {
    return this.#queuedBytes;
  }

  /** Whether so much may be added. */
  takes(bytes: number): boolean {
    if (this.#isClosed) return false;
    // While nothing is known to work, one at a time.
    if (this.#isFailing) return this.#queue.length === 0 && performance.now() >= this.#pausedUntilMs;
    return this.#queue.length === 0 || this.#queuedBytes + bytes <= this.#options.queueBytes;
  }

  add(block: BlockToWrite, transfer: readonly ArrayBuffer[]): void {
    const bytes = block.kind === 'new' ? block.bytes.length : block.place.bytes;
    this.#send(block, transfer);
    this.#queue.push({ kind: block.kind, key: block.key, bytes });
    this.#queuedBytes += bytes;
  }

  remove(tenant: string): Promise<number> {
    return this.#call((call) => ({ kind: 'remove', call, tenant }));
  }

  async flush(): Promise<void> {
    await this.#call((call) => ({ kind: 'flush', call }));
  }

  async close(signal: AbortSignal | undefined): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const abandon = () => Atomics.store(this.#abandoned, 0, 1);
    if (signal?.aborted) abandon();
    signal?.addEventListener('abort', abandon, { once: true });
    const ended = new Promise<void>((resolve) => this.#worker.once('exit', () => resolve()));
    this.#send({ kind: 'close' }, []);
    await ended;
    signal?.removeEventListener('abort', abandon);
  }

  #call(message: (call: number) => ToWriteThread): Promise<number> {
    if (this.#isClosed) return Promise.resolve(0);
    const call = this.#callCount++;
    return new Promise((resolve, reject) => {
      this.#calls.set(call, { resolve, reject });
      this.#send(message(call), []);
    });
  }

  #send(message: ToWriteThread, transfer: readonly ArrayBuffer[]): void {
    this.#worker.ref();
    this.#worker.postMessage(message, transfer);
  }

  #hear(message: FromWriteThread): void {
    if (message.kind === 'warning') this.#listener.warn(message.message);
    else if (message.kind === 'opened') this.#hearOpened().resolve(message);
    else if (message.kind === 'unopened') this.#hearUnopened(message.message);
    else if (message.kind === 'changes') this.#listener.changes(message);
    else if (message.kind === 'written') this.#hearWritten(message);
    else if (message.kind === 'dropped') this.#hearDropped(message.count, message.message);
    else if (message.kind === 'done') this.#hearDone(message.call, message.result);
    const isIdle = this.#queue.length === 0 && this.#calls.size === 0;
    // Someone waits for it to be opened or closed.
    if (isIdle && !this.#isClosed && !this.#isOpening) this.#worker.unref();
  }

  #hearUnopened(reason: string): void {
    this.#isClosed = true;
    this.#hearOpened().reject(new Error(reason));
  }

  #hearOpened(): Opening {
    this.#isOpening = false;
    return this.#opening;
  }

  #hearWritten(message: Written): void {
    const nowMs = performance.now();
    if (this.#isFailing) this.#worksSinceMs = nowMs;
    this.#isFailing = false;
    if (this.#isReported && nowMs - this.#worksSinceMs > 2 * this.#options.pauseMs) {
      this.#isReported = false;
      this.#listener.warn('blocks can be written again');
    }
    this.#listener.written(message, this.#take(message.count));
  }

  #hearDropped(count: number, message: string | undefined): void {
    if (message !== undefined) {
      if (!this.#isReported) {
        this.#listener.warn(`blocks cannot be written: ${message}; tried again every now and then`);
      }
      this.#isReported = true;
      this.#isFailing = true;
      this.#pausedUntilMs = performance.now() + this.#options.pauseMs;
    }
    this.#listener.dropped(this.#take(count));
  }

  #hearDone(id: number, result: number | string): void {
    const call = this.#calls.get(id);
    this.#calls.delete(id);
    if (typeof result === 'string') call?.reject(new Error(result));
    else call?.resolve(result);
  }

  #take(count: number): QueuedBlock[] {
    const blocks = this.#queue.take(count);
    for (const { bytes } of blocks) this.#queuedBytes -= bytes;
    return blocks;
  }

  #lose(reason: string): void {
    this.#hearOpened().reject(new Error(reason));
    if (!this.#isClosed) this.#listener.warn(`blocks are not written any more: ${reason}`);
    this.#isClosed = true;
    this.#listener.dropped(this.#take(this.#queue.length));
    for (const call of this.#calls.values()) call.reject(new Error(reason));
    this.#calls.clear();
  }
}
