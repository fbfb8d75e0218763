// The prompts of a request, encoded for its model.

import type { FastifyRequest } from 'fastify';
import { type Prompt, type PromptInput, readPrompt } from '../../generation/prompt.ts';
import type { ServerContext } from '../context.ts';
import type { Caller } from '../request/auth.ts';
import type { Visit } from '../request/request-scope.ts';

export interface PromptOrder {
  readonly context: ServerContext;
  readonly request: FastifyRequest;
  readonly caller: Caller;
  readonly inputs: readonly PromptInput[];
  /** What the client calls each of them. */
  readonly nameOf: (at: number) => string;
}

/** One after the other: between two prompts of a request it is others' turn. */
export async function encodePrompts(
  { context, request, caller, inputs, nameOf }: PromptOrder,
  { model, signal }: Pick<Visit, 'model' | 'signal'>,
): Promise<readonly Prompt[]> {
  const { encoders: encoder, settings: limits } = context;
  const options = { encoder, account: caller.keyId, signal, limits };
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
