// The prompts of a request, encoded for its model.

import type { Prompt } from '../../generation/context-room.ts';
import { type PromptInput, readPrompt } from '../../generation/prompt.ts';
import { requestImages } from '../images/request-images.ts';
import type { RequestScope } from '../request/request-scope.ts';

/**
 * Encodes one prompt after the other, so that other requests get a turn between two of them. `nameOf`: what the client calls
 * each of them; `mustFit` refuses what cannot fit before it is encoded; `now`: what templates take for the present.
 */
export async function encodePrompts(
  { context, request, caller, model, signal }: RequestScope,
  inputs: readonly PromptInput[],
  nameOf: (at: number) => string,
  mustFit = true,
  now?: Date,
): Promise<readonly Prompt[]> {
  const { encoders: encoder, settings: limits } = context;
  const images = requestImages(context);
  const options = { encoder, account: caller.keyId, signal, limits, images, mustFit, now };
  const prompts: Prompt[] = [];
  for (const [at, input] of inputs.entries()) {
    prompts.push(await readPrompt(input, model, { ...options, parameter: nameOf(at) }));
  }
  if (limits.logPrompts) {
    request.log.info({ prompts: prompts.map(({ text, ids }) => text ?? [...ids]) }, 'prompts');
  }
  return prompts;
}

export function tokensOf(prompts: readonly Prompt[]): number {
  return prompts.reduce((sum, { ids }) => sum + ids.length, 0);
}

/** What the record of a request has of its prompts. */
export function recordedPrompts(prompts: readonly Prompt[]): {
  readonly promptTokens: number;
  readonly promptText: () => string;
} {
  return {
    promptTokens: tokensOf(prompts),
    promptText: () => prompts.map(({ text, ids }) => text ?? ids.join(' ')).join('\n'),
  };
}
