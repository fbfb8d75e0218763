// Blocks that go down to the disk of a benchmark's engine and come up again, at a rate or as fast as a store's threads can. A thread of
// its own makes them, for an engine's own thread has no such work. See tier-steps.ts.

import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { parentPort, Worker, workerData } from 'node:worker_threads';
import { BlockStore } from '#src/block-store/block-store.ts';
import { lowerPriority } from '#src/block-store/thread-priority.ts';

/** Written and read back together. */
const BLOCKS = 32;
const BLOCK_BYTES = 512 * 1024;
const DISK_BYTES = 64 * 1024 ** 3;

interface TrafficData {
  readonly folder: string;
  /** Down and up together; undefined: as fast as its threads can. */
  readonly bytesPerSecond: number | undefined;
}

export class TierTraffic {
  readonly #worker: Worker;

  private constructor(worker: Worker) {
    this.#worker = worker;
  }

  static async open(data: TrafficData): Promise<TierTraffic> {
    const traffic = new TierTraffic(new Worker(new URL(import.meta.url), { workerData: data }));
    await traffic.#reply();
    return traffic;
  }

  begin(): void {
    this.#worker.postMessage('begin');
  }

  /** How many bytes went down and up since it began. */
  end(): Promise<number> {
    this.#worker.postMessage('end');
    return this.#reply();
  }

  async close(): Promise<void> {
    this.#worker.postMessage('close');
    await this.#reply();
    await this.#worker.terminate();
  }

  /** An error of the thread ends the benchmark. */
  #reply(): Promise<number> {
    return new Promise((resolve) => this.#worker.once('message', resolve));
  }
}

async function move(
  store: BlockStore,
  bytesPerSecond: number | undefined,
  isOver: () => boolean,
): Promise<number> {
  const block = randomBytes(BLOCK_BYTES);
  const beganMs = performance.now();
  let bytes = 0;
  while (!isOver()) {
    if (bytesPerSecond !== undefined && bytes / bytesPerSecond > (performance.now() - beganMs) / 1000) {
      await pause(5);
      continue;
    }
    const keys = Array.from({ length: BLOCKS }, () => randomBytes(32));
    for (const key of keys) store.write(key, '', new Uint8Array(block));
    await store.flush();
    const read = await store.read(keys);
    bytes += 2 * read.filter((one) => one !== undefined).length * BLOCK_BYTES;
  }
  return bytes;
}

async function serve({ folder, bytesPerSecond }: TrafficData): Promise<void> {
  lowerPriority();
  const store = await BlockStore.open({
    ...{ folder, sizeBytes: DISK_BYTES, model: { name: 'others', identity: 'others' } },
    warn: (message) => process.stderr.write(`${message}\n`),
  });
  let isOver = true;
  let moved = Promise.resolve(0);
  parentPort?.on('message', async (message: 'begin' | 'end' | 'close') => {
    isOver = message !== 'begin';
    if (message === 'begin') {
      moved = move(store, bytesPerSecond, () => isOver);
      return;
    }
    const bytes = await moved;
    if (message === 'close') await store.close();
    parentPort?.postMessage(bytes);
  });
  parentPort?.postMessage(0);
}

if (parentPort !== null) await serve(workerData as TrafficData);
