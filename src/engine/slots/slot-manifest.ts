// What a saved slot says of itself: which model computed it, and which tokens its blocks are of. It is sealed with the blocks, so that
// what is read is what was written.

import { Buffer } from 'node:buffer';
import { BLOCK_TOKENS } from '../../compute/backend.ts';
import { type ModelIdentity, tenantOf } from '../tiers/block-keys.ts';
import type { SlotPrefix } from './prefix-holder.ts';
import { type FailedSlot, slotFailure } from './slot-action.ts';

const VERSION = 1;

/** What makes blocks the same bits, each by itself, so that a refusal can say what differs. */
export interface SlotModel extends ModelIdentity {
  /** Layout and type of KV; see KvContent. */
  readonly format: string;
  readonly arithmetic: number;
}

interface SlotManifest {
  readonly version: number;
  readonly model: string;
  readonly format: string;
  readonly arithmetic: number;
  /** What the adapter is; empty for none. */
  readonly adapter: string;
  /** After the adapter. */
  readonly salt: string;
  /** In base64, as they lie in memory. */
  readonly tokens: string;
  /** Of blocks that show any, by their place. */
  readonly images: Readonly<Record<string, string>>;
  /** Places of blocks after which recurrent states follow. */
  readonly states: readonly number[];
}

export interface SavedPrefix {
  readonly prefix: SlotPrefix;
  readonly states: readonly number[];
}

export function writeManifest(
  { prefix, states }: SavedPrefix,
  { model, adapters, format, arithmetic }: SlotModel,
): Uint8Array {
  const { salt, tokens, imagesAt } = prefix;
  const [adapter, rest] = splitSalt(salt);
  const images: Record<string, string> = {};
  for (let place = 0; place * BLOCK_TOKENS < tokens.length; place++) {
    const text = imagesAt(place * BLOCK_TOKENS);
    if (text !== '') images[place] = text;
  }
  const manifest: SlotManifest = {
    version: VERSION,
    ...{ model, format, arithmetic, images, states },
    adapter: adapter === '' ? '' : (adapters[Number(adapter)] ?? ''),
    salt: rest,
    tokens: Buffer.from(tokens.buffer, tokens.byteOffset, tokens.byteLength).toString('base64'),
  };
  return new Uint8Array(Buffer.from(JSON.stringify(manifest)));
}

/** Or why it is of no use to this model and this tenant. */
export function readManifest(bytes: Uint8Array, model: SlotModel, tenant: string): SavedPrefix | FailedSlot {
  const manifest = JSON.parse(Buffer.from(bytes).toString('utf8')) as SlotManifest;
  const problem = problemOf(manifest, model, tenant);
  if (problem !== undefined) return slotFailure('unfit', `the saved slot ${problem}`);
  const { images, states } = manifest;
  const content = new Uint8Array(Buffer.from(manifest.tokens, 'base64'));
  const tokens = new Int32Array(content.buffer);
  const imagesAt = (offset: number) => images[offset / BLOCK_TOKENS] ?? '';
  const adapter = manifest.adapter === '' ? '' : String(model.adapters.indexOf(manifest.adapter));
  return { prefix: { salt: `${adapter}${manifest.salt}`, tokens, imagesAt }, states };
}

function problemOf(manifest: SlotManifest, model: SlotModel, tenant: string): string | undefined {
  if (manifest.version !== VERSION) return 'was written by a version that writes saved slots otherwise';
  if (manifest.model !== model.model) return 'is of another model, or of one whose files were changed';
  if (manifest.format !== model.format) return 'has another KV type, or blocks of another layout';
  if (manifest.arithmetic !== model.arithmetic) {
    return 'was computed by a version that computes other bits: it cannot be gone on with';
  }
  if (manifest.adapter !== '' && !model.adapters.includes(manifest.adapter)) {
    return 'was computed with an adapter that the model does not have now';
  }
  if (tenantOf(manifest.salt) !== tenant) return 'was saved under another setting of shareCache';
  return undefined;
}

/** The adapter's number, or nothing, and the rest with its colon. */
function splitSalt(salt: string): readonly [adapter: string, rest: string] {
  const at = salt.indexOf(':');
  return [salt.slice(0, at), salt.slice(at)];
}
