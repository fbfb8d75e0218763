// Encodes and decodes texts of any length without blocking the event loop: short ones inline, long ones in a thread.
// Long ones can be cancelled, and accounts take turns, also between the parts of a very long one.

import { setImmediate } from 'node:timers/promises';
import { type JobCaller, JobQueue } from '../runtime/job-queue.ts';
import type { EncodeResult, EncodeWork } from './encode-worker.ts';
import type { DecodeOptions, EncodeOptions, Tokenizer } from './tokenizer.ts';

/** Shorter ones take a few milliseconds, about as long as a message to a thread and back. */
const INLINE_CHARACTERS = 8192;
const INLINE_IDS = 8192;

/** Characters or ids handled inline before the event loop runs: a request may bring thousands of short texts. */
const INLINE_AT_ONCE = 32_768;

const entry = new URL('../../dist/text/encode-worker.js', import.meta.url);

type EncodeQueue = JobQueue<EncodeWork, EncodeResult>;

/** In no vocabulary: it decodes to nothing. */
const NO_TOKEN = -1;

interface TextModel {
  readonly path: string;
  readonly tokenizer: Tokenizer;
}

export class EncodeWorkers {
  readonly #queues = new Map<string, EncodeQueue>();
  #closed = false;
  #doneInline = 0;
  #jobs = 0;
  /** Serializes requests, so that many together do not block the event loop either. */
  #turn: Promise<unknown> = Promise.resolve();

  async encode(
    model: TextModel,
    text: string,
    options: EncodeOptions = {},
    caller: JobCaller = {},
  ): Promise<Int32Array> {
    caller.signal?.throwIfAborted();
    if (text.length <= INLINE_CHARACTERS) {
      await this.#takeTurn(text.length, caller);
      return model.tokenizer.encode(text, options);
    }
    const work = { kind: 'encode', job: this.#jobs++, text, options } as const;
    const result = await this.#queue(model.path).run(work, caller);
    if (result.kind !== 'ids') throw new Error('the encoding thread answered an encoding with a text');
    return result.ids;
  }

  async decode(
    model: TextModel,
    ids: ArrayLike<number> & Iterable<number>,
    options: DecodeOptions = {},
    caller: JobCaller = {},
  ): Promise<string> {
    caller.signal?.throwIfAborted();
    if (ids.length <= INLINE_IDS) {
      await this.#takeTurn(ids.length, caller);
      return model.tokenizer.decode(ids, options);
    }
    const work = { kind: 'decode', ids: packed(ids), options } as const;
    const result = await this.#queue(model.path).run(work, caller);
    if (result.kind !== 'text') throw new Error('the encoding thread answered a decoding with ids');
    return result.text;
  }

  async #takeTurn(size: number, { signal }: JobCaller): Promise<void> {
    this.#doneInline += size;
    if (this.#doneInline <= INLINE_AT_ONCE) return;
    this.#doneInline = size;
    this.#turn = this.#turn.then(() => setImmediate());
    await this.#turn;
    signal?.throwIfAborted();
  }

  /** Rejects pending jobs. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#queues.values()].map((queue) => queue.close()));
  }

  #queue(path: string): EncodeQueue {
    if (this.#closed) throw new Error('the encoding threads are closed');
    const queue = this.#queues.get(path) ?? newQueue(path);
    this.#queues.set(path, queue);
    return queue;
  }
}

function newQueue(path: string): EncodeQueue {
  return new JobQueue({
    entry,
    workerData: path,
    pausing: {
      resume: (work) => (work.kind === 'encode' ? { kind: 'resume', job: work.job } : work),
      forget: (work) => (work.kind === 'encode' ? { kind: 'forget', job: work.job } : work),
    },
    handedOver: (work) => (work.kind === 'decode' ? [work.ids.buffer] : []),
  });
}

/** A copy that can be transferred to a thread. */
function packed(ids: ArrayLike<number>): Int32Array<ArrayBuffer> {
  const copy = new Int32Array(ids.length);
  for (let index = 0; index < ids.length; index++) {
    const id = ids[index] as number;
    copy[index] = (id | 0) === id ? id : NO_TOKEN;
  }
  return copy;
}
