// POST /tokenize and /detokenize.

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import type { ServedModel } from '../../pool/served-model.ts';
import { orAbort } from '../activity.ts';
import { chatPrompt, checkText } from '../chat-prompt.ts';
import type { ServerContext } from '../context.ts';
import { badRequest } from '../errors.ts';
import { acquireModel, findEntry } from '../models.ts';
import { parseBody, unknownWarning } from '../schemas/parse.ts';
import { detokenizeRules, tokenizeRules, type tokenizeSchema } from '../schemas/text.ts';

type TokenizeBody = z.infer<typeof tokenizeSchema>;

export function tokenRoutes(app: FastifyInstance, context: ServerContext): void {
  app.post('/tokenize', async (request, reply) => {
    const { body, unknown } = parseBody(tokenizeRules, request.body);
    warn(reply, unknown);
    return withModel(context, request, reply, body.model, async (model, signal) => {
      const ids = await orAbort(encode(body, model, context), signal);
      const { tokenizer, spec } = model;
      return {
        count: ids.length,
        max_model_len: spec.contextLength,
        tokens: [...ids],
        ...(body.return_token_strs
          ? { token_strs: Array.from(ids, (id) => tokenizer.tokenText(id) ?? '') }
          : {}),
      };
    });
  });
  app.post('/detokenize', async (request, reply) => {
    const { body, unknown } = parseBody(detokenizeRules, request.body);
    warn(reply, unknown);
    return withModel(context, request, reply, body.model, async ({ tokenizer, spec }) => {
      const stranger = body.tokens.find((id) => id >= spec.vocabSize);
      if (stranger !== undefined) {
        throw badRequest(
          'tokens',
          `${stranger} is no token id; the model's ids are 0 to ${spec.vocabSize - 1}`,
        );
      }
      return { prompt: tokenizer.decode(body.tokens, { special: body.skip_special_tokens !== true }) };
    });
  });
}

async function withModel<Answer>(
  { activity, pool, settings }: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
  name: string | undefined,
  use: (model: ServedModel, signal: AbortSignal) => Promise<Answer>,
): Promise<Answer> {
  const known = findEntry(pool, name).name;
  const lifetime = activity.begin(request, reply, settings.requestTimeoutMs);
  try {
    const lease = await acquireModel(pool, known, lifetime.signal);
    try {
      return await use(lease.model, lifetime.signal);
    } finally {
      lease.release();
    }
  } finally {
    lifetime.end();
  }
}

function encode(body: TokenizeBody, model: ServedModel, context: ServerContext): Promise<Int32Array> {
  const { prompt, messages } = body;
  const { encoders, settings } = context;
  if ((prompt === undefined) === (messages === undefined)) {
    throw badRequest('prompt', 'give either prompt or messages');
  }
  if (messages !== undefined) {
    const addGenerationPrompt = body.add_generation_prompt ?? true;
    const options = { addGenerationPrompt, variables: body.chat_template_kwargs };
    return encoders.encode(model, chatPrompt(model, messages, options, settings), { special: true });
  }
  const text = prompt ?? '';
  checkText('prompt', text, settings.maxTextCharacters);
  return encoders.encode(model, text, { special: true, bos: body.add_special_tokens ?? true });
}

function warn(reply: FastifyReply, unknown: readonly string[]): void {
  if (unknown.length > 0) reply.header('x-chairlift-warning', unknownWarning(unknown));
}
