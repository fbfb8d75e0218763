// What an answer will probably be, as its asker says: in tokens, for the engine to begin its draft tokens with.

import type { ServedModel } from '../pool/served-model.ts';
import { roomOf } from './context-room.ts';
import type { PromptEncoder } from './prompt.ts';

/** So many characters a token are looked at. */
const MOST_TOKEN_CHARACTERS = 16;

interface ExpectedOptions {
  readonly encoder: PromptEncoder;
  readonly account?: string | undefined;
  readonly signal: AbortSignal;
}

/** As much of it as the model could ever write. */
export async function expectedIds(
  text: string | undefined,
  model: Pick<ServedModel, 'path' | 'tokenizer' | 'spec' | 'engine'> & Parameters<typeof roomOf>[0],
  { encoder, account, signal }: ExpectedOptions,
): Promise<Int32Array | undefined> {
  if (text === undefined) return undefined;
  const room = roomOf(model);
  const start = text.slice(0, room * MOST_TOKEN_CHARACTERS);
  const ids = await encoder.encode(model, start, { special: false, bos: false }, { account, signal });
  return ids.slice(0, room);
}
