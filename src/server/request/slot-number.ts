// Which numbers slots have, and the one that a request names.

import { badRequest } from '../http/errors.ts';
import type { ServerSettings } from '../settings.ts';

/** So many are shown where memory alone limits how many sequences run. */
const SHOWN_SLOTS = 4;

interface HasSettings {
  readonly settings: Pick<ServerSettings, 'maxBatchSize' | 'savesSlots'>;
}

export function slotCount({ settings }: { readonly settings: Pick<ServerSettings, 'maxBatchSize'> }): number {
  return settings.maxBatchSize ?? SHOWN_SLOTS;
}

/** Undefined where it names none, or where nothing is saved, so that no number means anything. */
export function askedSlot(
  { settings }: HasSettings,
  { id_slot: slot }: { readonly id_slot?: number | undefined },
): number | undefined {
  if (!settings.savesSlots || slot === undefined || slot === -1) return undefined;
  const last = slotCount({ settings }) - 1;
  if (slot < 0 || slot > last) throw badRequest('id_slot', `must be a number from 0 to ${last}, or -1`);
  return slot;
}
