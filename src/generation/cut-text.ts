// Texts that may lose their end where they are longer than a model takes.

import type { ServedModel } from '../pool/served-model.ts';
import { roomOf } from './context-room.ts';
import type { Prompt } from './prompt.ts';

/** What no encoding could fit is gone before anyone spends time on encoding it. */
export function cutText(text: string, { spec, tokenizer }: Pick<ServedModel, 'spec' | 'tokenizer'>): string {
  return text.slice(0, (spec.contextLength - 1) * tokenizer.longestToken);
}

/** The tokens that a model wants after a text stay. Undefined where it fits as it is. */
export function cutPrompt(
  { ids, ...rest }: Prompt,
  model: Pick<ServedModel, 'spec' | 'tokenizer' | 'blockCount'>,
): Prompt | undefined {
  const room = roomOf(model);
  if (ids.length <= room) return undefined;
  const ending = model.tokenizer.encode('', { eos: true });
  return { ...rest, ids: Int32Array.from([...ids.subarray(0, room - ending.length), ...ending]) };
}
