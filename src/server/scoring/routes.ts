// Reranking, scoring and classification: the routes of Jina, Cohere, Text Embeddings Inference, llama-server and vLLM.

import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { ServerContext } from '../context.ts';
import { rulesNote } from '../http/parse-body.ts';
import type { Route } from '../route.ts';
import { serveRerank } from './rerank.ts';
import {
  classifyAnswerSchema,
  classifyRules,
  classifySchema,
  poolingAnswerSchema,
  poolingSchema,
  rankedTextsSchema,
  rerankAnswerSchema,
  rerankRules,
  rerankSchema,
  scoreAnswerSchema,
  scoreRules,
  scoreSchema,
} from './schemas.ts';
import { serveClassify, servePooling, serveScore } from './score.ts';

export function scoringRoutes(context: ServerContext): readonly Route[] {
  const rerank = (version: 1 | 2) => (request: FastifyRequest, reply: FastifyReply) =>
    serveRerank(context, request, reply, version);
  const ranks = {
    method: 'POST',
    access: 'key',
    body: rerankSchema,
    answer: z.union([rerankAnswerSchema, rankedTextsSchema]),
  } as const;
  return [
    {
      ...ranks,
      url: '/v1/rerank',
      summary: 'Documents by their relevance to a query',
      description: rulesNote(rerankRules),
      handler: rerank(1),
    },
    { ...ranks, url: '/v1/reranking', summary: 'The same, as llama-server calls it', handler: rerank(1) },
    { ...ranks, url: '/v2/rerank', summary: 'The same, as Cohere answers it', handler: rerank(2) },
    {
      method: 'POST',
      url: '/v1/score',
      access: 'key',
      summary: 'Pairs of texts to scores',
      description: rulesNote(scoreRules),
      body: scoreSchema,
      answer: scoreAnswerSchema,
      handler: (request, reply) => serveScore(context, request, reply),
    },
    {
      method: 'POST',
      url: '/classify',
      access: 'key',
      summary: 'Texts to the labels of a classifier',
      description: rulesNote(classifyRules),
      body: classifySchema,
      answer: classifyAnswerSchema,
      handler: (request, reply) => serveClassify(context, request, reply),
    },
    {
      method: 'POST',
      url: '/pooling',
      access: 'key',
      summary: 'Texts to what the head or the pooling of a model gives',
      body: poolingSchema,
      answer: poolingAnswerSchema,
      handler: (request, reply) => servePooling(context, request, reply),
    },
  ];
}
