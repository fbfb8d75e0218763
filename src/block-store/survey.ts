// What lies in a store, read beside the processes that use it: for people who ask, and for those who doubt it.

import { IndexReader } from './index-reader.ts';
import type { IndexSlot } from './index-slots.ts';
import { RecordReader } from './record-reader.ts';
import type { Sealing } from './sealing.ts';
import { allSegments, listModels, listSegments, type Segment } from './segments.ts';
import type { StoreFiles } from './store-files.ts';

export interface ModelSurvey {
  /** Its folder in the store. */
  readonly model: string;
  /** On disk. */
  readonly bytes: number;
  readonly segments: number;
  readonly blocks: number;
  /** When its oldest and its newest block were computed. */
  readonly oldestS: number | undefined;
  readonly newestS: number | undefined;
  /** Segments of another key, or of another version of this program. */
  readonly unreadableSegments: number;
}

export interface ModelCheck {
  readonly model: string;
  readonly whole: number;
  readonly damaged: number;
  /** Slots of indexes that tell of no block any more. */
  readonly damagedSlots: number;
  readonly unreadableSegments: number;
}

/** Of records that are checked together. */
const CHECKED_AT_ONCE = 64;

/** `sealing`: undefined where the store's key is absent; then no block is known. */
export function surveyStore(files: StoreFiles, folder: string, sealing: Sealing | undefined): ModelSurvey[] {
  const segments = allSegments(files, folder);
  return listModels(files, folder).flatMap((model) => {
    const own = segments.filter((segment) => segment.model === model);
    // A process has come and written nothing yet.
    return own.length === 0 ? [] : [{ model, ...survey(files, folder, model, own, sealing) }];
  });
}

function survey(
  files: StoreFiles,
  folder: string,
  model: string,
  segments: readonly Segment[],
  sealing: Sealing | undefined,
): Omit<ModelSurvey, 'model'> {
  const keys = new Set<string>();
  let [oldestS, newestS, unreadableSegments] = [Number.POSITIVE_INFINITY, 0, 0];
  const reader = sealing && new IndexReader(files, folder, model, sealing);
  for (const { name } of segments) {
    const slots = reader?.read(name)?.slots;
    if (slots === undefined) unreadableSegments++;
    for (const { key, createdS } of slots ?? []) {
      // A block that was kept by writing it anew is one block.
      keys.add(Buffer.from(key).toString('latin1'));
      oldestS = Math.min(oldestS, createdS);
      newestS = Math.max(newestS, createdS);
    }
  }
  const hasBlocks = keys.size > 0;
  return {
    bytes: segments.reduce((sum, { bytes }) => sum + bytes, 0),
    segments: segments.length,
    blocks: keys.size,
    oldestS: hasBlocks ? oldestS : undefined,
    newestS: hasBlocks ? newestS : undefined,
    unreadableSegments,
  };
}

/** Reads every byte. `progress`: told of segments of the model that were read. */
export function verifyModel(
  files: StoreFiles,
  folder: string,
  model: string,
  sealing: Sealing,
  progress: (read: number, all: number) => void = () => {},
): ModelCheck {
  const index = new IndexReader(files, folder, model, sealing);
  const reader = new RecordReader(files, folder, model, sealing);
  const names = listSegments(files, folder, model);
  const check = { model, whole: 0, damaged: 0, damagedSlots: 0, unreadableSegments: 0 };
  for (const [at, name] of names.entries()) {
    const parsed = index.read(name);
    // Removed meanwhile.
    if (parsed === undefined && !listSegments(files, folder, model).includes(name)) continue;
    if (parsed === undefined) check.unreadableSegments++;
    else {
      check.damagedSlots += parsed.damaged;
      const { whole, damaged } = verifySlots(reader, name, parsed.slots);
      check.whole += whole;
      check.damaged += damaged;
    }
    progress(at + 1, names.length);
  }
  return check;
}

/** What was removed meanwhile is neither. */
function verifySlots(reader: RecordReader, segment: string, slots: readonly IndexSlot[]) {
  let [whole, damaged] = [0, 0];
  for (let from = 0; from < slots.length; from += CHECKED_AT_ONCE) {
    const some = slots.slice(from, from + CHECKED_AT_ONCE);
    const blocks = reader.read(some.map(({ key, offset, bytes }) => ({ key, segment, offset, bytes })));
    whole += blocks.filter((block) => typeof block !== 'string').length;
    damaged += blocks.filter((block) => block === 'damaged').length;
  }
  return { whole, damaged };
}
