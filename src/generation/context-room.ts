// How much fits a model: prompt and answer together share its context.

import { BLOCK_TOKENS } from '../compute/backend.ts';
import type { ServedModel } from '../pool/served-model.ts';
import type { SamplingParameters } from '../sampling/parameters.ts';
import { GenerationError, invalid } from './generation-error.ts';
import type { ParameterNames } from './parameter-names.ts';

/** Tokens of prompt and answer together. */
export function roomOf({ spec, blockCount }: Pick<ServedModel, 'spec' | 'blockCount'>): number {
  return Math.min(spec.contextLength, blockCount * BLOCK_TOKENS);
}

/**
 * Refuses a text that cannot fit however well it encodes, before anyone spends time on encoding it: a token stands
 * for so many characters at most.
 */
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
  );
}

/** An answer may be cut short by the context, but a prompt must leave room for one token, if any is wanted. */
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
    throw new GenerationError('context_length_exceeded', message, names.prompt);
  }
  const { maxTokens, minTokens } = parameters;
  if (minTokens > left) {
    const problem = `${minTokens} do not fit; the prompt leaves room for ${left}`;
    throw invalid(names.minTokens, problem, 'context_length_exceeded');
  }
  return maxTokens === undefined ? parameters : { ...parameters, maxTokens: Math.min(maxTokens, left) };
}

/** A text that is not continued may fill the context to its end. */
export function checkFits(promptTokens: number, room: number, parameter: string): void {
  if (promptTokens === 0) throw invalid(parameter, 'is empty, and there is nothing to embed');
  if (promptTokens <= room) return;
  const message = `This model's maximum context length is ${room} tokens. However, ${parameter} has ${promptTokens}`;
  throw new GenerationError('context_length_exceeded', message, parameter);
}

/** Clients know by its first words, which are OpenAI's, that a shorter prompt would do. */
function tooLong(room: number, found: string): string {
  return `This model's maximum context length is ${room} tokens. However, ${found}, and its answer needs room, too`;
}
