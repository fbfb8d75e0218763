// POST /tokenize, /detokenize and /apply-template. Limits count them as requests; long texts are encoded off the event loop.

import { isUtf8 } from 'node:buffer';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { type Conversation, chatPrompt } from '../../generation/chat-prompt.ts';
import { type PromptInput, readPrompt, tokenIds } from '../../generation/prompt.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { ServerContext } from '../context.ts';
import { badRequest } from '../http/errors.ts';
import { type BodyRules, readBody } from '../http/parse-body.ts';
import { requestImages } from '../images/request-images.ts';
import { NO_TOKENS } from '../limits/key-limiter.ts';
import { findEntry } from '../request/find-model.ts';
import { requestContext, withRequestScope } from '../request/request-scope.ts';
import type { Route } from '../route.ts';
import type { ServerSettings } from '../settings.ts';
import { chatKind } from './chat.ts';
import { readChat } from './read-chat.ts';
import { detokenizedSchema, inputTokensSchema, promptSchema, tokensSchema } from './schemas/answers.ts';
import { chatRequestSchema, chatRules, templateOptions } from './schemas/chat.ts';
import { detokenizeRules, detokenizeSchema, tokenizeRules, tokenizeSchema } from './schemas/completions.ts';

type TokenizeBody = z.infer<typeof tokenizeSchema>;

interface TokenCall<Body> {
  readonly body: Body;
  readonly model: ServedModel;
  /** For whom encoders work off the event loop, and until when. */
  readonly caller: { readonly account: string; readonly signal: AbortSignal };
}

export function tokenRoutes(context: ServerContext): readonly Route[] {
  return [
    {
      method: 'POST',
      url: '/tokenize',
      access: 'key',
      summary: 'Text or messages to token ids',
      body: tokenizeSchema,
      answer: tokensSchema,
      handler: (request, reply) =>
        tokenCall(context, tokenizeRules, request, reply, (call) => tokenize(context, call)),
    },
    {
      method: 'POST',
      url: '/detokenize',
      access: 'key',
      summary: 'Token ids to text',
      body: detokenizeSchema,
      answer: detokenizedSchema,
      handler: (request, reply) =>
        tokenCall(context, detokenizeRules, request, reply, (call) => detokenize(context, call)),
    },
    {
      method: 'POST',
      url: '/v1/chat/completions/input_tokens',
      access: 'key',
      summary: 'How many tokens the prompt of a chat has, as llama-server counts them',
      body: chatRequestSchema,
      takesImages: true,
      answer: inputTokensSchema,
      handler: (request, reply) =>
        tokenCall(context, chatRules, request, reply, async ({ body, model, caller }) => {
          const chat = await readChat(body, requestContext(context, request, reply));
          const [input] = chatKind.prompts(chat, context.settings);
          const { encoders: encoder, settings: limits } = context;
          const images = requestImages(context);
          const options = { ...caller, encoder, limits, images, parameter: 'messages', mustFit: false };
          const { ids } = await readPrompt(input as PromptInput, model, options);
          return { object: 'response.input_tokens', input_tokens: ids.length };
        }),
    },
    {
      method: 'POST',
      url: '/apply-template',
      access: 'key',
      summary: 'Messages to the prompt that the model sees',
      // The same body makes the same prompt at /v1/chat/completions.
      body: chatRequestSchema,
      takesImages: true,
      answer: promptSchema,
      handler: (request, reply) =>
        tokenCall(context, chatRules, request, reply, async ({ body, model }) => {
          const chat = await readChat(body, requestContext(context, request, reply));
          const [conversation] = chatKind.prompts(chat, context.settings);
          const shown = { ...(conversation as Conversation), images: model.spec.vision !== undefined };
          return { prompt: chatPrompt(model, shown, context.settings) };
        }),
    },
  ];
}

async function tokenize(
  context: ServerContext,
  { body, model, caller }: TokenCall<TokenizeBody>,
): Promise<object> {
  const { encoders: encoder, settings: limits } = context;
  // A text that is too long for the model may be tokenized all the same.
  const images = requestImages(context);
  const options = { ...caller, encoder, limits, images, parameter: 'prompt', mustFit: false };
  const { ids } = await readPrompt(inputOf(body, limits), model, options);
  const { tokenizer, spec } = model;
  return {
    count: ids.length,
    max_model_len: spec.contextLength,
    tokens: body.with_pieces === true ? Array.from(ids, (id) => pieceOf(model, id)) : [...ids],
    ...(body.return_token_strs ? { token_strs: Array.from(ids, (id) => tokenizer.tokenText(id) ?? '') } : {}),
  };
}

/** Bytes where they are no whole characters, which a text could not hold. */
function pieceOf({ tokenizer }: ServedModel, id: number): object {
  const bytes = Buffer.from(
    tokenizer.isSpecial(id) ? (tokenizer.tokenText(id) ?? '') : tokenizer.tokenBytes(id),
  );
  return { id, piece: isUtf8(bytes) ? bytes.toString('utf8') : [...bytes] };
}

async function detokenize(
  { encoders }: ServerContext,
  { body, model, caller }: TokenCall<z.infer<typeof detokenizeSchema>>,
): Promise<object> {
  const ids = tokenIds(body.tokens, model.spec.vocabSize, 'tokens');
  const special = body.skip_special_tokens !== true;
  const text = await encoders.decode(model, ids, { special }, caller);
  return { prompt: text, content: text };
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
  const body = readBody(rules, request, reply);
  const name = findEntry(context.pool, body.model as string | undefined).name;
  const incoming = requestContext(context, request, reply);
  const options = { modelName: name, demand: NO_TOKENS, sequences: 0 };
  return withRequestScope(incoming, options, ({ model, caller: { keyId: account }, signal }) =>
    use({ body, model, caller: { account, signal } }),
  );
}

function inputOf(body: TokenizeBody, settings: ServerSettings): PromptInput {
  const { prompt, content, messages } = body;
  if ([prompt, content, messages].filter((one) => one !== undefined).length !== 1) {
    throw badRequest('prompt', 'give one of prompt, content and messages');
  }
  if (content !== undefined) {
    return { kind: 'text', text: content, bos: body.add_special === true, special: body.parse_special };
  }
  return messages === undefined
    ? { kind: 'text', text: prompt ?? '', bos: body.add_special_tokens }
    : { kind: 'chat', messages, tools: body.tools, ...templateOptions(body, settings) };
}
