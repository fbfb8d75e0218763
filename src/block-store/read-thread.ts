// The thread of `read-queue.ts`: reads blocks and opens their seals.

import { parentPort, type Transferable, workerData } from 'node:worker_threads';
import { nodeFiles } from './node-files.ts';
import { type ReadBlock, RecordReader, type WantedBlock } from './record-reader.ts';
import { Sealing } from './sealing.ts';
import { lowerPriority } from './thread-priority.ts';

export interface ReadThreadData {
  readonly folder: string;
  readonly model: string;
  readonly storeKey: Uint8Array;
}

export interface ToReadThread {
  readonly job: number;
  readonly wanted: readonly WantedBlock[];
}

export interface FromReadThread {
  readonly job: number;
  readonly blocks: readonly ReadBlock[];
}

lowerPriority('reading');
const { folder, model, storeKey } = workerData as ReadThreadData;
const reader = new RecordReader(nodeFiles, folder, model, new Sealing(storeKey));

parentPort?.on('message', ({ job, wanted }: ToReadThread) => {
  const blocks = reader.read(wanted).map(whole);
  const message: FromReadThread = { job, blocks };
  parentPort?.postMessage(message, buffersOf(blocks));
});

/** With a buffer of its own, which can be handed over. */
function whole(block: ReadBlock): ReadBlock {
  if (typeof block === 'string' || block.byteLength === block.buffer.byteLength) return block;
  return block.slice();
}

function buffersOf(blocks: readonly ReadBlock[]): Transferable[] {
  return blocks.flatMap((block) => (typeof block === 'string' ? [] : [block.buffer as ArrayBuffer]));
}
