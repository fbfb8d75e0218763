// POST /v1/embeddings and /v1/rerank; the former under /v1/batch too, at LOW priority.

import type { FastifyInstance } from 'fastify';
import type { ServerContext } from '../context.ts';
import { serveEmbeddings } from './embeddings.ts';
import { serveRerank } from './rerank.ts';

export function embeddingRoutes(app: FastifyInstance, context: ServerContext): void {
  app.post('/v1/embeddings', (request, reply) =>
    serveEmbeddings(context, request, reply, { forceLow: false }),
  );
  app.post('/v1/batch/embeddings', (request, reply) =>
    serveEmbeddings(context, request, reply, { forceLow: true }),
  );
  app.post('/v1/rerank', (request, reply) => serveRerank(context, request, reply));
}
