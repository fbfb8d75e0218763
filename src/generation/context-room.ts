// Context limits: prompt and answer share a model's context.

import { BLOCK_TOKENS } from '../compute/backend.ts';
import type { PromptImages, PromptPictures } from '../engine/request.ts';
import type { ServedModel } from '../pool/served-model.ts';
import type { SamplingParameters } from '../sampling/parameters.ts';
import type { ParameterNames } from './generation-error.ts';
import { GenerationError, invalid } from './generation-error.ts';

export interface Prompt {
  readonly ids: Int32Array;
  readonly text?: string;
  /** How the text ends, where the ids are only the last of it. */
  readonly end?: string | undefined;
  /** Whether the answer continues the prompt's text: a space before its first word is then kept. */
  readonly continuation: boolean;
  /** Its pictures, once they are prepared. Default: none. */
  readonly images?: PromptImages | undefined;
  /** In their place, as they came, where the machine that computes prepares them. */
  readonly pictures?: PromptPictures | undefined;
  /** Prepares them; the prompt's tokens are counted before. */
  readonly prepareImages?: ((signal: AbortSignal) => Promise<PromptImages>) | undefined;
}

/** With its pictures decoded and resized, which a request without a chance should not cost. */
export async function withImages(prompt: Prompt, signal: AbortSignal): Promise<Prompt> {
  const { prepareImages, ...rest } = prompt;
  return prepareImages === undefined ? prompt : { ...rest, images: await prepareImages(signal) };
}

export function roomOf({ spec, blockCount }: Pick<ServedModel, 'spec' | 'blockCount'>): number {
  return Math.min(spec.contextLength, blockCount * BLOCK_TOKENS);
}

/** Refuses a text that cannot fit before it is encoded: a token has `longestToken` characters at most. */
export function checkTextFits(
  text: string,
  { spec, tokenizer }: Pick<ServedModel, 'spec' | 'tokenizer'>,
  parameter: string,
): void {
  const fewest = Math.ceil(text.length / tokenizer.longestToken);
  if (fewest < spec.contextLength) return;
  throw new GenerationError(
    'context_length_exceeded',
    tooLong(
      spec.contextLength,
      `the prompt has ${text.length} characters, ${fewest} tokens at the very least`,
    ),
    parameter,
    { promptTokens: fewest, contextTokens: spec.contextLength },
  );
}

/** The context may cut an answer short, but a prompt must leave room for one token, if any is wanted. */
export function fitToContext(
  parameters: SamplingParameters,
  promptTokens: number,
  room: number,
  names: ParameterNames,
): SamplingParameters {
  if (promptTokens === 0) {
    throw invalid(names.prompt, 'is empty, and this model needs something to start from');
  }
  const left = room - promptTokens;
  if (left < (parameters.maxTokens === 0 ? 0 : 1)) {
    const message = tooLong(room, `the prompt has ${promptTokens} tokens`);
    const sizes = { promptTokens, contextTokens: room };
    throw new GenerationError('context_length_exceeded', message, names.prompt, sizes);
  }
  const { maxTokens, minTokens } = parameters;
  if (minTokens > left) {
    const problem = `${minTokens} do not fit; the prompt leaves room for ${left}`;
    throw invalid(names.minTokens, problem, 'context_length_exceeded');
  }
  return maxTokens === undefined ? parameters : { ...parameters, maxTokens: Math.min(maxTokens, left) };
}

/** A text to embed may fill the context to its end. */
export function checkFits(promptTokens: number, room: number, parameter: string): void {
  if (promptTokens === 0) throw invalid(parameter, 'is empty, and there is nothing to embed');
  if (promptTokens <= room) return;
  const message = `This model's maximum context length is ${room} tokens. However, ${parameter} has ${promptTokens}`;
  const sizes = { promptTokens, contextTokens: room };
  throw new GenerationError('context_length_exceeded', message, parameter, sizes);
}

/** Clients recognize the first words, which are OpenAI's, and retry with a shorter prompt. */
function tooLong(room: number, found: string): string {
  return `This model's maximum context length is ${room} tokens. However, ${found}, and its answer needs room, too`;
}

/** Removes what cannot fit before it is encoded. */
export function cutText(text: string, { spec, tokenizer }: Pick<ServedModel, 'spec' | 'tokenizer'>): string {
  return text.slice(0, (spec.contextLength - 1) * tokenizer.longestToken);
}

/** Keeps the tokens that the model wants after a text. Undefined where the prompt fits. */
export function cutPrompt(
  { ids, ...rest }: Prompt,
  model: Pick<ServedModel, 'spec' | 'tokenizer' | 'blockCount'>,
): Prompt | undefined {
  const room = roomOf(model);
  if (ids.length <= room) return undefined;
  const ending = model.tokenizer.encode('', { eos: true });
  return { ...rest, ids: Int32Array.from([...ids.subarray(0, room - ending.length), ...ending]) };
}
