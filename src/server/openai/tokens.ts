// POST /tokenize, /detokenize and /apply-template: limited like any request, and off the event loop where they are long.

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { type Conversation, chatPrompt } from '../../generation/chat-prompt.ts';
import { type PromptInput, readPrompt, tokenIds } from '../../generation/prompt.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { ServerContext } from '../context.ts';
import { badRequest } from '../http/errors.ts';
import { type BodyRules, parseBody, unknownWarning } from '../http/parse-body.ts';
import { chatKind } from '../jobs/protocol.ts';
import { NO_TOKENS } from '../limits/key-limiter.ts';
import type { Caller } from '../request/auth.ts';
import { findEntry } from '../request/find-model.ts';
import { stay, withModel } from '../request/request-scope.ts';
import { chatRules, templateOptions } from './schemas/chat.ts';
import { detokenizeRules, tokenizeRules, type tokenizeSchema } from './schemas/text.ts';

type TokenizeBody = z.infer<typeof tokenizeSchema>;

interface TokenCall<Body> {
  readonly body: Body;
  readonly model: ServedModel;
  /** For whom work off the event loop is done, and until when. */
  readonly caller: { readonly account: string; readonly signal: AbortSignal };
}

export function tokenRoutes(app: FastifyInstance, context: ServerContext): void {
  app.post('/tokenize', (request, reply) =>
    tokenCall(context, tokenizeRules, request, reply, async ({ body, model, caller }) => {
      const { ids } = await readPrompt(inputOf(body), model, {
        ...caller,
        encoder: context.encoders,
        parameter: 'prompt',
        // How long a text is may be asked of any text.
        mustFit: false,
        limits: context.settings,
      });
      const { tokenizer, spec } = model;
      return {
        count: ids.length,
        max_model_len: spec.contextLength,
        tokens: [...ids],
        ...(body.return_token_strs
          ? { token_strs: Array.from(ids, (id) => tokenizer.tokenText(id) ?? '') }
          : {}),
      };
    }),
  );
  app.post('/detokenize', (request, reply) =>
    tokenCall(context, detokenizeRules, request, reply, async ({ body, model, caller }) => {
      const ids = tokenIds(body.tokens, model.spec.vocabSize, 'tokens');
      const special = body.skip_special_tokens !== true;
      return { prompt: await context.encoders.decode(model, ids, { special }, caller) };
    }),
  );
  // A body for /v1/chat/completions makes here what it makes there.
  app.post('/apply-template', (request, reply) =>
    tokenCall(context, chatRules, request, reply, async ({ body, model }) => {
      const [conversation] = chatKind.prompts(body, context.settings);
      return { prompt: chatPrompt(model, conversation as Conversation, context.settings) };
    }),
  );
}

async function tokenCall<
  Schema extends z.ZodObject & { readonly shape: { readonly model: z.ZodType } },
  Answer,
>(
  context: ServerContext,
  rules: BodyRules<Schema>,
  request: FastifyRequest,
  reply: FastifyReply,
  use: (call: TokenCall<z.infer<Schema>>) => Promise<Answer>,
): Promise<Answer> {
  const { body, unknown } = parseBody(rules, request.body);
  if (unknown.length > 0) reply.header('x-chairlift-warning', unknownWarning(unknown));
  const name = findEntry(context.pool, body.model as string | undefined).name;
  const account = (request.caller as Caller).keyId;
  return stay(context, request, reply, NO_TOKENS, ({ signal }) =>
    withModel(context, name, signal, (model) => use({ body, model, caller: { account, signal } })),
  );
}

function inputOf(body: TokenizeBody): PromptInput {
  const { prompt, messages } = body;
  if ((prompt === undefined) === (messages === undefined)) {
    throw badRequest('prompt', 'give either prompt or messages');
  }
  return messages === undefined
    ? { kind: 'text', text: prompt ?? '', bos: body.add_special_tokens }
    : { kind: 'chat', messages, tools: body.tools, ...templateOptions(body) };
}
