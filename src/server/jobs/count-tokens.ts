// Counts the tokens of the very prompt that would be answered. The limits count it as a request, not as tokens.

import { readPrompt } from '../../generation/prompt.ts';
import { NO_TOKENS } from '../limits/key-limiter.ts';
import type { SamplingBody } from '../openai/schemas/sampling.ts';
import { findEntry } from '../request/find-model.ts';
import { type RequestContext, withRequestScope } from '../request/request-scope.ts';
import { tokensOf } from './encode-prompts.ts';
import type { CompletionKind } from './protocol.ts';

export async function countTokens<Body extends SamplingBody>(
  incoming: RequestContext,
  kind: CompletionKind<Body>,
  body: Body,
): Promise<number> {
  const { context } = incoming;
  const inputs = kind.prompts(body, context.settings);
  const modelName = findEntry(context.pool, body.model).name;
  const options = { modelName, demand: NO_TOKENS, sequences: 0 };
  return withRequestScope(incoming, options, async ({ model, caller, signal }) => {
    const { encoders: encoder, settings: limits } = context;
    const parameter = kind.names(body).prompt;
    const encoding = { encoder, account: caller.keyId, signal, limits, parameter, mustFit: false };
    return tokensOf(await Promise.all(inputs.map((input) => readPrompt(input, model, encoding))));
  });
}
