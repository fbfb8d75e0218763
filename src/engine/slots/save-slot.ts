// Writes the prefix of a slot to a file: its blocks from memory, between steps, or from the tiers below.

import { recordBytes, type SlotFilePlace } from '../../block-store/slot-file.ts';
import { SlotFile, slotPlace } from '../../block-store/slot-files.ts';
import type { SlotWorkResult } from '../../block-store/slot-thread.ts';
import { BLOCK_TOKENS } from '../../compute/backend.ts';
import { PrefixHolder } from './prefix-holder.ts';
import { AvailableBlocks, piecesOf, type SavedPart, savedParts } from './saved-blocks.ts';
import { type FailedSlot, type SaveAction, type SlotResult, slotFailure } from './slot-action.ts';
import type { SlotContext } from './slot-context.ts';
import { writeManifest } from './slot-manifest.ts';

export async function saveSlot(context: SlotContext, action: SaveAction): Promise<SlotResult> {
  const { steps, keys, prefixes, files } = context;
  const { tenant, slot, owner, name } = action;
  const prefix = prefixes.get(tenant, slot);
  if (prefix === undefined)
    return slotFailure('empty', `slot ${slot} holds no whole block of ${BLOCK_TOKENS} tokens`);
  const holder = new PrefixHolder(`save ${slot}`, prefix);
  const chain = keys.chain(holder, holder.blockCount);
  const available = await steps.change(() => new AvailableBlocks(context, holder, chain));
  try {
    const { end, states } = available;
    if (end === 0) return slotFailure('empty', `nothing of slot ${slot} is in the cache any more`);
    const parts = savedParts(chain.slice(0, end), states, context.content);
    const saved = { ...prefix, tokens: prefix.tokens.subarray(0, end * BLOCK_TOKENS) };
    const manifest = writeManifest({ prefix: saved, states }, context.model);
    const written = await writeFile(context, slotPlace(files, owner, name), available, { parts, manifest });
    return written.ok ? { ok: true, tokens: saved.tokens.length, bytes: written.bytes, ms: 0 } : written;
  } finally {
    await steps.change(() => available.release());
  }
}

async function writeFile(
  context: SlotContext,
  place: SlotFilePlace,
  available: AvailableBlocks,
  { parts, manifest }: { readonly parts: readonly SavedPart[]; readonly manifest: Uint8Array },
): Promise<SlotWorkResult | FailedSlot> {
  const file = new SlotFile(context.files);
  try {
    const bytes = recordBytes(parts.map((part) => part.bytes)) + manifest.length;
    const begun = await file.run({ kind: 'create', place, bytes });
    if (!begun.ok) return begun;
    for (const warning of begun.warnings) context.warn(warning);
    return (
      (await writeParts(context, file, available, parts)) ?? (await file.run({ kind: 'finish', manifest }))
    );
  } finally {
    await file.close();
  }
}

async function writeParts(
  context: SlotContext,
  file: SlotFile,
  available: AvailableBlocks,
  parts: readonly SavedPart[],
): Promise<FailedSlot | undefined> {
  let added: Promise<SlotWorkResult> | undefined;
  for (const piece of piecesOf(parts)) {
    if (context.signal.aborted) return slotFailure('ended', 'the model was unloaded');
    const contents = await readPiece(context, available, piece);
    const records = piece.flatMap(({ key }, at) => {
      const bytes = contents[at];
      return bytes === undefined ? [] : [{ key: new Uint8Array(key), bytes }];
    });
    // Those before are written while the next are read.
    const before = await added;
    if (before?.ok === false) return before;
    if (records.length < piece.length)
      return slotFailure('empty', 'blocks of the slot went from the cache meanwhile');
    added = file.run({ kind: 'add', records });
  }
  const last = await added;
  return last?.ok === false ? last : undefined;
}

/** In the order of the piece; undefined for what is gone. */
async function readPiece(
  { content, steps, stored }: SlotContext,
  available: AvailableBlocks,
  piece: readonly SavedPart[],
): Promise<(Uint8Array | undefined)[]> {
  const reads: Promise<Uint8Array | undefined>[] = [];
  const inMemory = piece.filter((part) => available.find(part) !== undefined);
  await steps.copy(inMemory.length, (index) => {
    const part = inMemory[index] as SavedPart;
    const place = available.find(part) as number;
    available.assertHeld();
    const read = part.isState
      ? content.readState(place)
      : content.readBlocks(Int32Array.of(place)).then(([block]) => block);
    // It is awaited with the others.
    read.catch(() => {});
    reads.push(read);
  });
  const below = piece.filter((part) => available.find(part) === undefined);
  const [own, others] = await Promise.all([
    Promise.all(reads),
    below.length === 0 ? [] : (stored?.read(below.map(({ key }) => key)) ?? []),
  ]);
  return piece.map((part) => (available.find(part) === undefined ? others : own).shift());
}
