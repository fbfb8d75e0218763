// The thread of `read-queue.ts`: reads blocks and opens their seals.

import { parentPort, type Transferable, workerData } from 'node:worker_threads';
import { FreeBuffers } from './free-buffers.ts';
import { nodeFiles } from './node-files.ts';
import { type ReadBlock, RecordReader, type WantedBlock } from './record-reader.ts';
import { Sealing } from './sealing.ts';
import { lowerPriority } from './thread-priority.ts';

export interface ReadThreadData {
  readonly folder: string;
  readonly model: string;
  readonly storeKey: Uint8Array;
}

export type ToReadThread =
  | { readonly kind: 'read'; readonly job: number; readonly wanted: readonly WantedBlock[] }
  | { readonly kind: 'free'; readonly buffers: readonly ArrayBuffer[] };

export interface FromReadThread {
  readonly job: number;
  readonly blocks: readonly ReadBlock[];
}

lowerPriority();
const { folder, model, storeKey } = workerData as ReadThreadData;
const free = new FreeBuffers();
const reader = new RecordReader(nodeFiles, folder, model, new Sealing(storeKey), (bytes) => free.take(bytes));

parentPort?.on('message', (message: ToReadThread) => {
  if (message.kind === 'free') free.add(message.buffers);
  else read(message.job, message.wanted);
});

function read(job: number, wanted: readonly WantedBlock[]): void {
  const blocks = reader.read(wanted);
  const message: FromReadThread = { job, blocks };
  parentPort?.postMessage(message, buffersOf(blocks));
}

function buffersOf(blocks: readonly ReadBlock[]): Transferable[] {
  return blocks.flatMap((block) => (typeof block === 'string' ? [] : [block.buffer as ArrayBuffer]));
}
