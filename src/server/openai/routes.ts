// Chat and text completions and embeddings; also under /v1/batch, at LOW priority.

import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ServerContext } from '../context.ts';
import { rulesNote } from '../http/parse-body.ts';
import { type ServeOptions, serveCompletion } from '../jobs/serve-completion.ts';
import type { Route } from '../route.ts';
import { chatProtocol } from './chat.ts';
import { textProtocol } from './completions.ts';
import { serveEmbeddings } from './embeddings.ts';
import {
  chatAnswerSchema,
  chatChunkSchema,
  embeddingAnswerSchema,
  textAnswerSchema,
} from './schemas/answers.ts';
import { chatRequestSchema, chatRules } from './schemas/chat.ts';
import { textRules, textSchema } from './schemas/completions.ts';
import { embeddingRules, embeddingSchema } from './schemas/embeddings.ts';

const asUsual: ServeOptions = { forceLow: false };
const atLow: ServeOptions = { forceLow: true };
const lowNote = 'The same at LOW priority, whatever the key.';

export function openAiRoutes(context: ServerContext): readonly Route[] {
  const chat = {
    method: 'POST',
    access: 'key',
    body: chatRequestSchema,
    takesImages: true,
    answer: chatAnswerSchema,
    chunk: chatChunkSchema,
  } as const;
  const text = {
    method: 'POST',
    access: 'key',
    body: textSchema,
    answer: textAnswerSchema,
    chunk: textAnswerSchema,
  } as const;
  const embeddings = {
    method: 'POST',
    access: 'key',
    body: embeddingSchema,
    answer: embeddingAnswerSchema,
  } as const;
  const answerChat = (options: ServeOptions) => (request: FastifyRequest, reply: FastifyReply) =>
    serveCompletion(context, chatProtocol, request, reply, options);
  const continueText = (options: ServeOptions) => (request: FastifyRequest, reply: FastifyReply) =>
    serveCompletion(context, textProtocol, request, reply, options);
  const embed = (options: ServeOptions) => (request: FastifyRequest, reply: FastifyReply) =>
    serveEmbeddings(context, request, reply, options);
  return [
    {
      ...chat,
      url: '/v1/chat/completions',
      summary: 'Answer a conversation',
      description: rulesNote(chatRules),
      handler: answerChat(asUsual),
    },
    {
      ...text,
      url: '/v1/completions',
      onlyPrefixed: true,
      summary: 'Continue a text',
      description: rulesNote(textRules),
      handler: continueText(asUsual),
    },
    {
      ...chat,
      url: '/v1/batch/chat/completions',
      summary: 'Answer a conversation, no hurry',
      description: lowNote,
      handler: answerChat(atLow),
    },
    {
      ...text,
      url: '/v1/batch/completions',
      summary: 'Continue a text, no hurry',
      description: lowNote,
      handler: continueText(atLow),
    },
    {
      ...embeddings,
      url: '/v1/embeddings',
      onlyPrefixed: true,
      summary: 'Texts to vectors',
      description: rulesNote(embeddingRules),
      handler: embed(asUsual),
    },
    {
      ...embeddings,
      url: '/v1/batch/embeddings',
      summary: 'Texts to vectors, no hurry',
      description: lowNote,
      handler: embed(atLow),
    },
  ];
}
