// Removes blocks whoever writes them, at once and for good: their bytes are overwritten with zeros where they lie, which every
// process that had found them takes for what it is.

import { join } from 'node:path';
import { IndexReader } from './index-reader.ts';
import { SLOT_BYTES } from './index-slots.ts';
import type { Sealing } from './sealing.ts';
import {
  allSegments,
  blocksPath,
  indexPath,
  listModels,
  listSegments,
  removeSegment,
  type Segment,
} from './segments.ts';
import type { StoreFiles } from './store-files.ts';

const ZEROS = new Uint8Array(2 ** 20);

interface Span {
  readonly offset: number;
  readonly bytes: number;
}

/** Of every model. How many blocks there were. */
export function removeTenant(files: StoreFiles, folder: string, sealing: Sealing, tenant: string): number {
  const mark = sealing.tenantMark(tenant);
  let removed = 0;
  for (const model of listModels(files, folder)) {
    const reader = new IndexReader(files, folder, model, sealing);
    for (const name of listSegments(files, folder, model)) {
      const { slots, numbers } = reader.read(name) ?? { slots: [], numbers: [] };
      const own = slots.flatMap((slot, at) =>
        mark.equals(slot.tenant) ? [{ slot, number: numbers[at] as number }] : [],
      );
      if (own.length === 0) continue;
      overwrite(
        files,
        blocksPath(folder, model, name),
        own.map(({ slot }) => slot),
      );
      const ofIndex = own.map(({ number }) => ({ offset: number * SLOT_BYTES, bytes: SLOT_BYTES }));
      overwrite(files, indexPath(folder, model, name), ofIndex);
      if (own.length === slots.length) removeSegment(files, folder, model, name);
      removed += own.length;
    }
    // Segments that went before must not come back after a loss of power, for nobody would look through them then.
    files.syncFolder(join(folder, model));
  }
  return removed;
}

function overwrite(files: StoreFiles, path: string, spans: readonly Span[]): void {
  const file = files.open(path, 'change');
  if (file === undefined) return;
  try {
    for (const { offset, bytes } of spans) {
      for (let done = 0; done < bytes; done += ZEROS.length) {
        files.write(file, [ZEROS.subarray(0, bytes - done)], offset + done);
      }
    }
    files.sync(file);
  } finally {
    files.close(file);
  }
}

/** Of segments that this returns true for; their bytes. */
export function removeSegments(
  files: StoreFiles,
  folder: string,
  isWanted: (segment: Segment) => boolean,
): number {
  let bytes = 0;
  for (const segment of allSegments(files, folder).filter(isWanted)) {
    removeSegment(files, folder, segment.model, segment.name);
    bytes += segment.bytes;
  }
  for (const model of listModels(files, folder)) files.removeFolder(join(folder, model));
  return bytes;
}
