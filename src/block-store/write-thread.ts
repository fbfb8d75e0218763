// The thread of `write-queue.ts`: seals and writes blocks, follows other processes, keeps the limits. It takes what has come
// meanwhile in one go, so that a disk sees few large writes.

import { createHash } from 'node:crypto';
import { parentPort, workerData } from 'node:worker_threads';
import { messageOf } from '../runtime/error-message.ts';
import { Fifo } from './fifo.ts';
import { keepFolderId, openFolderId } from './folder-id.ts';
import { packSlots } from './index-slots.ts';
import { keepStoreKey, openStoreKey } from './key-file.ts';
import { nodeFiles } from './node-files.ts';
import type { StoreLimits } from './room.ts';
import { Sealing } from './sealing.ts';
import { sharedModelFolder } from './segments.ts';
import { type BlockToWrite, StoreWriter } from './store-writer.ts';
import { lowerPriority } from './thread-priority.ts';

export interface WriteThreadData {
  readonly folder: string;
  /** Its folder in the store, unless others use another one for the same model. */
  readonly model: string;
  readonly keyFile: string;
  readonly limits: StoreLimits;
  /** How often it looks for what other processes have written. */
  readonly followMs: number;
  /** Set to 1: what has not been written is dropped. */
  readonly abandoned: Int32Array;
}

export type ToWriteThread =
  | BlockToWrite
  | { readonly kind: 'remove'; readonly call: number; readonly tenant: string }
  /** Answered when everything before it is done. */
  | { readonly kind: 'flush'; readonly call: number }
  | { readonly kind: 'close' };

export interface PackedSegment {
  readonly segment: string;
  readonly slots: Uint8Array<ArrayBuffer>;
}

export interface OpenedStore {
  readonly storeKey: Uint8Array;
  /** Its folder in the store. */
  readonly model: string;
  /** See BlockTier. */
  readonly holder: string | undefined;
}

export type FromWriteThread =
  | { readonly kind: 'warning'; readonly message: string }
  | ({ readonly kind: 'opened' } & OpenedStore)
  | { readonly kind: 'unopened'; readonly message: string }
  | {
      readonly kind: 'changes';
      readonly found: readonly PackedSegment[];
      readonly gone: readonly string[];
      readonly damaged: number;
    }
  /** `count`: of the messages that asked for it. */
  | {
      readonly kind: 'written';
      readonly count: number;
      readonly added: PackedSegment | undefined;
      readonly gone: readonly string[];
      readonly oldBefore: string;
      readonly ms: number;
    }
  /** `message`: absent where it was abandoned. */
  | { readonly kind: 'dropped'; readonly count: number; readonly message: string | undefined }
  | { readonly kind: 'done'; readonly call: number; readonly result: number | string }
  | { readonly kind: 'closed' };

const data = workerData as WriteThreadData;
const BATCH_BYTES = Math.min(8 * 2 ** 20, data.limits.segmentBytes / 2);

const waiting = new Fifo<ToWriteThread>();
let isScheduled = false;

function send(message: FromWriteThread): void {
  const buffers =
    message.kind === 'changes'
      ? message.found.map(({ slots }) => slots.buffer)
      : message.kind === 'written' && message.added !== undefined
        ? [message.added.slots.buffer]
        : [];
  parentPort?.postMessage(message, buffers);
}

function open(): StoreWriter {
  const storeKey = openStoreKey(nodeFiles, data.keyFile, (message) => send({ kind: 'warning', message }));
  const sealing = new Sealing(storeKey);
  nodeFiles.makeFolder(data.folder);
  const id = folderId();
  const model = sharedModelFolder(nodeFiles, data.folder, data.model);
  const writer = new StoreWriter(nodeFiles, {
    ...{ ...data, model, sealing },
    keepKey: () => {
      keepStoreKey(nodeFiles, data.keyFile, storeKey);
      if (id !== undefined) keepFolderId(nodeFiles, data.folder, id);
    },
  });
  follow(writer);
  send({ kind: 'opened', storeKey, model, holder: id && holderOf(id, model, sealing) });
  return writer;
}

/** Undefined where it can be neither read nor made: blocks are of use all the same. */
function folderId(): string | undefined {
  try {
    return openFolderId(nodeFiles, data.folder);
  } catch (error) {
    send({
      kind: 'warning',
      message: `other machines cannot tell that it is this folder: ${messageOf(error)}`,
    });
    return undefined;
  }
}

/** Blocks that were sealed with another key are not found, nor are those of other models. */
function holderOf(id: string, model: string, { mark }: Sealing): string {
  const text = JSON.stringify([id, Buffer.from(mark).toString('hex'), model]);
  return createHash('sha256').update(text).digest('hex').slice(0, 32);
}

function follow(writer: StoreWriter): void {
  const { found, gone, damaged } = writer.changes(Date.now());
  const packed = found.map(({ segment, slots }) => ({ segment, slots: packSlots(slots) }));
  if (packed.length + gone.length + damaged > 0) send({ kind: 'changes', found: packed, gone, damaged });
}

function followForEver(writer: StoreWriter): void {
  setTimeout(() => {
    try {
      follow(writer);
    } catch {
      // A folder that cannot be read now may be read later; what is written meanwhile says what is wrong.
    }
    followForEver(writer);
  }, data.followMs).unref();
}

function schedule(writer: StoreWriter): void {
  if (isScheduled) return;
  isScheduled = true;
  // After the messages that are here already.
  setImmediate(() => {
    isScheduled = false;
    work(writer);
    if (waiting.length > 0) schedule(writer);
  });
}

function work(writer: StoreWriter): void {
  const message = waiting.peek();
  if (message === undefined) return;
  if (message.kind === 'new' || message.kind === 'again') {
    write(writer, takeBatch());
    return;
  }
  waiting.take(1);
  if (message.kind === 'close') close(writer);
  else if (message.kind === 'flush') send({ kind: 'done', call: message.call, result: 0 });
  else send({ kind: 'done', call: message.call, result: removed(writer, message.tenant) });
}

function removed(writer: StoreWriter, tenant: string): number | string {
  try {
    return writer.remove(tenant);
  } catch (error) {
    return messageOf(error);
  }
}

function takeBatch(): BlockToWrite[] {
  const batch: BlockToWrite[] = [];
  let bytes = 0;
  for (let next = waiting.peek(); next?.kind === 'new' || next?.kind === 'again'; next = waiting.peek()) {
    bytes += next.kind === 'new' ? next.bytes.length : next.place.bytes;
    if (batch.length > 0 && bytes > BATCH_BYTES) break;
    batch.push(next);
    waiting.take(1);
  }
  return batch;
}

function write(writer: StoreWriter, batch: readonly BlockToWrite[]): void {
  const count = batch.length;
  if (Atomics.load(data.abandoned, 0) === 1) {
    send({ kind: 'dropped', count, message: undefined });
    return;
  }
  const beginMs = performance.now();
  try {
    const written = writer.write(batch, Date.now());
    const ms = performance.now() - beginMs;
    const added = written && { segment: written.added.segment, slots: packSlots(written.added.slots) };
    send({ kind: 'written', count, added, gone: written?.gone ?? [], oldBefore: writer.oldBefore, ms });
  } catch (error) {
    send({ kind: 'dropped', count, message: messageOf(error) });
  }
}

function close(writer: StoreWriter): void {
  try {
    writer.end();
  } catch (error) {
    send({ kind: 'warning', message: messageOf(error) });
  }
  send({ kind: 'closed' });
  parentPort?.close();
}

lowerPriority();
try {
  const writer = open();
  parentPort?.on('message', (message: ToWriteThread) => {
    waiting.push(message);
    schedule(writer);
  });
  followForEver(writer);
} catch (error) {
  send({ kind: 'unopened', message: messageOf(error) });
  parentPort?.close();
}
