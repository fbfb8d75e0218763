// Packs pieces of matrices on several threads: reading the finer formats group by group would keep one busy for minutes.
// Small models are packed on the calling thread.

import { Worker } from 'node:worker_threads';
import type { TensorType } from '../../weights/tensor-type.ts';
import { type Panels, packPanels } from './pack-panels.ts';
import type { PackAnswer, PackWork } from './pack-worker.ts';

const entry = new URL('../../../dist/compute/webgpu/pack-worker.js', import.meta.url);

/** Below this a model is packed before threads have started. */
const WORTH_BYTES = 64 << 20;
const MOST_THREADS = 8;

/** Packs rows, which it takes over. Rejects where they cannot be packed. */
type Pack = (
  type: TensorType,
  inputs: number,
  rows: Uint8Array<ArrayBuffer>,
  count: number,
) => Promise<Panels>;

export interface Packing {
  readonly pack: Pack;
  /** Pieces that may be on their way at once. */
  readonly atOnce: number;
  close(): Promise<void>;
}

export function startPacking(totalBytes: number, cores: number): Packing {
  const threads = totalBytes < WORTH_BYTES ? 0 : Math.min(cores, MOST_THREADS);
  if (threads < 2) {
    const pack: Pack = async (type, inputs, rows, count) => packPanels(type, inputs, rows, count);
    return { pack, atOnce: 1, close: async () => {} };
  }
  const packers = Array.from({ length: threads }, () => new Packer());
  let next = 0;
  return {
    pack: (type, inputs, rows, count) =>
      (packers[next++ % threads] as Packer).pack({ type, inputs, rows, count }),
    atOnce: 2 * threads,
    close: async () => {
      await Promise.all(packers.map((packer) => packer.close()));
    },
  };
}

interface Waiting {
  readonly resolve: (panels: Panels) => void;
  readonly reject: (error: Error) => void;
}

/** One thread; it answers in the order it was asked. */
class Packer {
  readonly #worker = new Worker(entry);
  readonly #waiting: Waiting[] = [];

  constructor() {
    this.#worker.on('message', (answer: PackAnswer) => {
      const waiting = this.#waiting.shift();
      if (answer.ok) waiting?.resolve(answer.panels);
      else waiting?.reject(new Error(answer.message));
    });
    this.#worker.on('error', (error) =>
      this.#fail(error instanceof Error ? error : new Error(String(error))),
    );
    this.#worker.on('exit', () => this.#fail(new Error('a packing thread has ended')));
  }

  pack(work: PackWork): Promise<Panels> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#worker.postMessage(work, [work.rows.buffer]);
    });
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }

  #fail(error: Error): void {
    for (const { reject } of this.#waiting.splice(0)) reject(error);
  }
}
