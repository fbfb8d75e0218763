// POST /v1/rerank, in the shape of Jina, Cohere and vLLM: ranks documents by the cosine of their vectors and the query's. It
// is for embedding models; cross-encoders cannot be run.

import { randomUUID } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { cosine } from '../../generation/embedding.ts';
import { notCapable } from '../../generation/generation-error.ts';
import type { PromptInput } from '../../generation/prompt.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { ServerContext } from '../context.ts';
import { badRequest } from '../http/errors.ts';
import { readBody } from '../http/parse-body.ts';
import { embedInputs, promptUsage } from '../jobs/embed-inputs.ts';
import { requestContext } from '../request/request-scope.ts';
import { rerankRules } from './schemas/embeddings.ts';

export async function serveRerank(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const body = readBody(rerankRules, request, reply);
  const texts = body.documents.map((one) => (typeof one === 'string' ? one : one.text));
  const most = context.settings.maxEmbeddingInputs;
  if (texts.length > most) {
    throw badRequest('documents', `${texts.length} documents are too many; ${most} are possible`);
  }
  const inputs = [body.query, ...texts].map((text): PromptInput => ({ kind: 'text', text, eos: true }));
  const nameOf = (at: number) => (at === 0 ? 'query' : `documents[${at - 1}]`);
  const asked = {
    ...requestContext(context, request, reply),
    modelName: body.model,
    inputs,
    nameOf,
    forceLow: false,
    check: mustCompare,
  };
  await embedInputs(asked, async ({ model, vectors, usage }) => {
    const [query, ...documents] = vectors as [Float32Array, ...Float32Array[]];
    const results = documents
      .map((vector, index) => ({
        index,
        relevance_score: cosine(query, vector),
        ...(body.return_documents === false ? {} : { document: { text: texts[index] } }),
      }))
      .sort((a, b) => b.relevance_score - a.relevance_score || a.index - b.index)
      .slice(0, body.top_n);
    reply.send({ id: `rerank-${randomUUID()}`, model: model.name, results, usage: promptUsage(usage) });
  });
  return reply;
}

/** Vectors of a model that was not trained for embeddings say little about texts. */
function mustCompare({ name, pooling }: ServedModel): void {
  if (pooling.possible && pooling.declared) return;
  throw notCapable(name, 'is not made for comparing texts; use one that is made for embeddings');
}
