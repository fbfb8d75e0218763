// Puts a saved slot back into the prefix cache. Its blocks are found by others only once the whole file was read and is what it
// should be.

import { recordBytes } from '../../block-store/slot-file.ts';
import { SlotFile, slotPlace } from '../../block-store/slot-files.ts';
import type { SlotWorkResult } from '../../block-store/slot-thread.ts';
import { BLOCK_TOKENS } from '../../compute/backend.ts';
import { messageOf } from '../../runtime/error-message.ts';
import { GaveWay, type Hold } from './hold.ts';
import { PrefixHolder } from './prefix-holder.ts';
import { piecesOf, type SavedPart, savedParts } from './saved-blocks.ts';
import { type FailedSlot, type RestoreAction, type SlotResult, slotFailure } from './slot-action.ts';
import type { SlotContext } from './slot-context.ts';
import { readManifest, type SavedPrefix } from './slot-manifest.ts';

/** Until then others have given memory, or there is none. */
const GRANT_MS = 5000;

export async function restoreSlot(context: SlotContext, action: RestoreAction): Promise<SlotResult> {
  const { files, model } = context;
  const file = new SlotFile(files);
  try {
    const opened = await file.run({ kind: 'open', place: slotPlace(files, action.owner, action.name) });
    if (!opened.ok) return opened;
    const saved = readManifest(opened.manifest, model, action.tenant);
    if (!('prefix' in saved)) return saved;
    const problem = await restorePrefix(context, action, saved, { file, recordBytes: opened.recordBytes });
    return problem ?? { ok: true, tokens: saved.prefix.tokens.length, bytes: opened.bytes, ms: 0 };
  } finally {
    await file.close();
  }
}

interface OpenSlotFile {
  readonly file: SlotFile;
  readonly recordBytes: number;
}

async function restorePrefix(
  context: SlotContext,
  action: RestoreAction,
  { prefix, states }: SavedPrefix,
  opened: OpenSlotFile,
): Promise<FailedSlot | undefined> {
  const { tables, steps, keys, prefixes, content } = context;
  const { tenant, slot } = action;
  const holder = new PrefixHolder(`restore ${slot}`, prefix, action);
  const end = holder.blockCount;
  if (holder.kvShare !== undefined && end > tables.shareBlocks(holder.kvShare)) {
    const most = tables.shareBlocks(holder.kvShare);
    const message = `the saved slot needs ${end} KV blocks, and this key may hold ${most} (a kvShare of ${holder.kvShare})`;
    return slotFailure('unfit', message);
  }
  const parts = savedParts(keys.chain(holder, end), states, content);
  if (recordBytes(parts.map(({ bytes }) => bytes)) !== opened.recordBytes) {
    return slotFailure('damaged', 'the saved slot has other blocks than it says');
  }
  const reserved = await reserveSoon(context, holder, states);
  if (reserved === undefined) {
    const { freeCount, blockCount } = tables.pool;
    const message = `the saved slot needs ${end} KV blocks, and ${freeCount} of ${blockCount} can be had now`;
    return slotFailure('busy', message);
  }
  const problem = await readParts(context, opened.file, parts, (part, bytes) => {
    reserved.hold.assertHeld();
    if (part.isState) reserved.writeState(part.place, bytes);
    else if (part.place >= reserved.found) content.writeBlock(holder.blocks[part.place] as number, bytes);
  }).catch((error: unknown) => slotFailure('busy', messageOf(error)));
  return steps.change(() => {
    const { hold } = reserved;
    const isWhole = problem === undefined && hold.isHeld;
    if (isWhole) {
      tables.fill(holder, end);
      prefixes.set(tenant, slot, prefix);
    }
    hold.release();
    return isWhole ? undefined : (problem ?? slotFailure('busy', new GaveWay().message));
  });
}

/** An engine begins with few blocks: others have to give memory for more. */
async function reserveSoon(
  context: SlotContext,
  holder: PrefixHolder,
  states: readonly number[],
): Promise<Reserved | undefined> {
  const { steps, tables, limits, signal } = context;
  const attempt = () => steps.change(() => reserve(context, holder, states));
  let reserved = await attempt();
  const untilMs = performance.now() + GRANT_MS;
  try {
    for (;;) {
      const leftMs = untilMs - performance.now();
      const isOver = leftMs <= 0 || limits.grantedBlocks >= tables.pool.blockCount || signal.aborted;
      if (reserved !== undefined || isOver) return reserved;
      const allowed = context.whenAllowed(leftMs);
      await steps.change(() => limits.want(holder.blockCount));
      await allowed;
      reserved = await attempt();
    }
  } finally {
    await steps.change(() => limits.want(0));
  }
}

interface Reserved {
  /** Leading blocks that are in the cache already. */
  readonly found: number;
  readonly hold: Hold;
  writeState(place: number, bytes: Uint8Array): void;
}

/** Undefined where there is no room for all of it. Of recurrent states the last one is needed, those before where there is room. */
function reserve(
  { tables, content, holds }: SlotContext,
  holder: PrefixHolder,
  states: readonly number[],
): Reserved | undefined {
  const found = tables.match(holder);
  if (!tables.reserve(holder, found, holder.blockCount)) return undefined;
  const last = holder.blockCount - 1;
  for (const place of states) if (place !== last) tables.recurrentStates?.reserve(holder, place + 1);
  const slots = new Map(
    holder.recurrent?.written.map(({ position, slot }) => [position / BLOCK_TOKENS - 1, slot]),
  );
  return {
    found: found.length,
    hold: holds.add(() => tables.release(holder)),
    writeState(place, bytes) {
      const slot = slots.get(place);
      if (slot !== undefined) content.writeState(slot, bytes);
    },
  };
}

async function readParts(
  { steps, signal }: SlotContext,
  file: SlotFile,
  parts: readonly SavedPart[],
  write: (part: SavedPart, bytes: Uint8Array) => void,
): Promise<FailedSlot | undefined> {
  const pieces = [...piecesOf(parts)];
  const take = (at: number): Promise<SlotWorkResult> | undefined => {
    const piece = pieces[at];
    if (piece === undefined) return undefined;
    return file.run({
      kind: 'take',
      blocks: piece.map(({ key, bytes }) => ({ key: new Uint8Array(key), bytes })),
    });
  };
  let next = take(0);
  for (const [at, piece] of pieces.entries()) {
    const taken = await next;
    if (signal.aborted) return slotFailure('ended', 'the model was unloaded');
    if (taken?.ok !== true) return taken ?? slotFailure('failed', 'the saved slot was not read');
    // The next ones are read while these are written.
    next = take(at + 1);
    await steps.copy(piece.length, (index) => {
      write(piece[index] as SavedPart, taken.blocks[index] as Uint8Array);
    });
  }
  return undefined;
}
