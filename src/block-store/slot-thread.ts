// The thread of `slot-files.ts`: writes or reads one saved slot.

import { parentPort, type Transferable, workerData } from 'node:worker_threads';
import { messageOf } from '../runtime/error-message.ts';
import type { FromJobThread } from '../runtime/job-thread.ts';
import { openStoreKey, readStoreKey } from './key-file.ts';
import { nodeFiles } from './node-files.ts';
import { Sealing } from './sealing.ts';
import {
  SlotFileError,
  type SlotFileFailure,
  type SlotFilePlace,
  SlotFileReader,
  SlotFileWriter,
  type SlotRecord,
} from './slot-file.ts';
import { lowerPriority } from './thread-priority.ts';

export interface SlotThreadData {
  readonly keyFile: string;
}

export type SlotWork =
  /** `bytes`: about what the file comes to. */
  | { readonly kind: 'create'; readonly place: SlotFilePlace; readonly bytes: number }
  | { readonly kind: 'add'; readonly records: readonly SlotRecord[] }
  | { readonly kind: 'finish'; readonly manifest: Uint8Array }
  | { readonly kind: 'open'; readonly place: SlotFilePlace }
  /** The next records: sizes are those of the blocks. */
  | {
      readonly kind: 'take';
      readonly blocks: readonly { readonly key: Uint8Array; readonly bytes: number }[];
    }
  | { readonly kind: 'close' };

/** `full`: the disk has no room for it. `failed`: the system refused a call. */
export type SlotWorkFailure = SlotFileFailure | 'full' | 'failed';

export type SlotWorkResult =
  | {
      readonly ok: true;
      /** Of the whole file, once it is finished or open. */
      readonly bytes: number;
      /** Of all records, where it was opened. */
      readonly recordBytes: number;
      readonly manifest: Uint8Array;
      readonly blocks: readonly Uint8Array[];
      /** What operators should know. */
      readonly warnings: readonly string[];
    }
  | {
      readonly ok: false;
      readonly failure: SlotWorkFailure;
      /** For clients: without paths. */
      readonly message: string;
      /** For operators, where there is more to say. */
      readonly detail?: string;
    };

/** Of a disk, that no saved slot takes. */
const KEPT_FREE_BYTES = 64 * 2 ** 20;
const FULL = ['ENOSPC', 'EDQUOT', 'EFBIG'];

const nothing = {
  ok: true,
  bytes: 0,
  recordBytes: 0,
  manifest: new Uint8Array(),
  blocks: [],
  warnings: [],
} as const;
const { keyFile } = workerData as SlotThreadData;
let writer: SlotFileWriter | undefined;
let reader: SlotFileReader | undefined;

function run(work: SlotWork): SlotWorkResult {
  switch (work.kind) {
    case 'create': {
      const { place, bytes } = work;
      nodeFiles.makeFolder(place.folder);
      const free = nodeFiles.room(place.folder)?.freeBytes ?? Number.POSITIVE_INFINITY;
      if (free < bytes + KEPT_FREE_BYTES) {
        return fullResult(`${place.folder}: ${bytes} bytes are needed, and ${free} are free`);
      }
      const warnings: string[] = [];
      const sealing = new Sealing(openStoreKey(nodeFiles, keyFile, (message) => warnings.push(message)));
      writer = new SlotFileWriter(nodeFiles, place, sealing, Date.now());
      return { ...nothing, warnings };
    }
    case 'add':
      for (const record of work.records) writer?.add(record);
      return nothing;
    case 'finish': {
      if (writer === undefined) throw new Error('no file was begun');
      return { ...nothing, bytes: writer.finish(work.manifest) };
    }
    case 'open': {
      const { name } = work.place;
      const storeKey = readStoreKey(nodeFiles, keyFile);
      if (storeKey === undefined) throw new SlotFileError('absent', `there is no saved slot '${name}'`);
      reader = new SlotFileReader(nodeFiles, work.place, new Sealing(storeKey));
      const { bytes, recordBytes, manifest } = reader;
      return { ...nothing, bytes, recordBytes, manifest };
    }
    case 'take': {
      const file = reader;
      if (file === undefined) throw new Error('no file is open');
      return { ...nothing, blocks: work.blocks.map(({ key, bytes }) => file.take(key, bytes)) };
    }
    case 'close':
      close();
      return nothing;
  }
}

/** What was not finished is removed. */
function close(): void {
  writer?.abort();
  reader?.close();
  writer = undefined;
  reader = undefined;
}

function resultOf(work: SlotWork): SlotWorkResult {
  try {
    return run(work);
  } catch (error) {
    close();
    if (error instanceof SlotFileError) return { ok: false, failure: error.failure, message: error.message };
    const { code = '' } = error as NodeJS.ErrnoException;
    const detail = messageOf(error);
    if (FULL.includes(code)) return fullResult(detail);
    return {
      ok: false,
      failure: 'failed',
      message: `the folder of saved slots cannot be used (${code})`,
      detail,
    };
  }
}

function fullResult(detail: string): SlotWorkResult {
  return { ok: false, failure: 'full', message: 'the disk has no room for the saved slot', detail };
}

/** With a buffer of its own each, which can be handed over. */
function send(given: SlotWorkResult): void {
  const result = given.ok ? { ...given, blocks: given.blocks.map(whole) } : given;
  const buffers: Transferable[] = result.ok ? result.blocks.map(({ buffer }) => buffer as ArrayBuffer) : [];
  parentPort?.postMessage({ kind: 'result', result } satisfies FromJobThread<SlotWorkResult>, buffers);
}

function whole(block: Uint8Array): Uint8Array {
  return block.byteLength === block.buffer.byteLength ? block : block.slice();
}

// Somebody waits for what it writes, too.
lowerPriority();
parentPort?.on('message', (work: SlotWork) => send(resultOf(work)));
parentPort?.postMessage({ kind: 'ready' } satisfies FromJobThread<SlotWorkResult>);
