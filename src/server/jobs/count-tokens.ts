// Counts the tokens of the very prompts that would be answered.

import { readPrompt } from '../../generation/prompt.ts';
import { requestImages } from '../images/request-images.ts';
import { NO_TOKENS } from '../limits/key-limiter.ts';
import type { SamplingBody } from '../openai/schemas/sampling.ts';
import { findEntry } from '../request/find-model.ts';
import { type RequestContext, type RequestScope, withRequestScope } from '../request/request-scope.ts';
import { tokensOf } from './encode-prompts.ts';
import type { CompletionKind } from './protocol.ts';

export type Count<Body> = (body: Body) => Promise<number>;

export function counterFor<Body extends SamplingBody>(
  { context, caller, model, signal }: RequestScope,
  kind: CompletionKind<Body>,
): Count<Body> {
  const { encoders: encoder, settings: limits } = context;
  return async (body) => {
    const parameter = kind.names(body).prompt;
    const images = requestImages(context);
    const encoding = { encoder, account: caller.keyId, signal, limits, images, parameter, mustFit: false };
    const inputs = kind.prompts(body, limits);
    return tokensOf(await Promise.all(inputs.map((input) => readPrompt(input, model, encoding))));
  };
}

/** The limits count it as a request, not as tokens. */
export async function countTokens<Body extends SamplingBody, Result>(
  incoming: RequestContext,
  kind: CompletionKind<Body>,
  modelName: string | undefined,
  use: (count: Count<Body>) => Promise<Result>,
): Promise<Result> {
  const { name } = findEntry(incoming.context.pool, modelName);
  const options = { modelName: name, demand: NO_TOKENS, sequences: 0 };
  return withRequestScope(incoming, options, (scope) => use(counterFor(scope, kind)));
}
