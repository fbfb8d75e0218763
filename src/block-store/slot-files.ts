// Saved slots in a folder, a folder below it for each owner. What is written and read of one file is done by a thread of its own.

import { createHash } from 'node:crypto';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { JobThread } from '../runtime/job-thread.ts';
import { KEY_FILE } from './key-file.ts';
import type { SlotFilePlace } from './slot-file.ts';
import type { SlotThreadData, SlotWork, SlotWorkResult } from './slot-thread.ts';

const entry = new URL('../../dist/block-store/slot-thread.js', import.meta.url);

export interface SlotFolder {
  readonly folder: string;
  /** Of the key that seals them; in the folder where absent. */
  readonly keyFile?: string | undefined;
}

const PLAIN_OWNER = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;

export function ownersFolder(folder: string, owner: string): string {
  if (PLAIN_OWNER.test(owner)) return join(folder, owner);
  return join(folder, `_${createHash('sha256').update(owner).digest('hex').slice(0, 32)}`);
}

/** All that an owner has saved, whichever model it is of; how many files there were. */
export async function removeSavedSlots(folder: string, owner: string): Promise<number> {
  const own = ownersFolder(folder, owner);
  const names = await readdir(own).catch(() => []);
  // Another process may be about to name a file.
  await rm(own, { recursive: true, force: true, maxRetries: 5 });
  return names.length;
}

export function slotPlace({ folder }: SlotFolder, owner: string, name: string): SlotFilePlace {
  return { folder: ownersFolder(folder, owner), name, owner };
}

/** One file under way. */
export class SlotFile {
  readonly #thread: JobThread<SlotWork, SlotWorkResult>;
  /** In the order in which they were sent. */
  readonly #waiting: ((result: SlotWorkResult) => void)[] = [];
  #lost: string | undefined;

  constructor({ folder, keyFile = join(folder, KEY_FILE) }: SlotFolder) {
    const workerData: SlotThreadData = { keyFile };
    this.#thread = new JobThread<SlotWork, SlotWorkResult>(
      { entry, workerData, handedOver },
      {
        ready: () => {},
        answer: (result) => this.#waiting.shift()?.(result instanceof Error ? failed(result) : result),
        paused: () => {},
        lost: (error) => {
          this.#lost = error.message;
          for (const settle of this.#waiting.splice(0)) settle(failed(error));
        },
      },
    );
  }

  run(work: SlotWork): Promise<SlotWorkResult> {
    if (this.#lost !== undefined) return Promise.resolve(failed(new Error(this.#lost)));
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.#thread.send(work);
    });
  }

  /** Removes what was begun and not finished. */
  async close(): Promise<void> {
    await this.run({ kind: 'close' });
    await this.#thread.end();
  }
}

function failed(error: Error): SlotWorkResult {
  return { ok: false, failure: 'failed', message: error.message };
}

/** Blocks that are written are needed here no more. */
function handedOver(work: SlotWork): readonly ArrayBuffer[] {
  if (work.kind !== 'add') return [];
  return work.records.flatMap(({ bytes }) =>
    bytes.buffer instanceof ArrayBuffer && bytes.byteLength === bytes.buffer.byteLength ? [bytes.buffer] : [],
  );
}
