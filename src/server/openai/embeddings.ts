// POST /v1/embeddings, in OpenAI's shape, and /v1/rerank, in that of Jina, Cohere and vLLM: ranks documents by the cosine of
// their vectors and the query's. It is for embedding models; cross-encoders cannot be run.

import { randomUUID } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { checkDimensions, cosine } from '../../generation/embedding.ts';
import { notCapable } from '../../generation/generation-error.ts';
import type { PromptInput } from '../../generation/prompt.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { ServerContext } from '../context.ts';
import { badRequest } from '../http/errors.ts';
import { readBody } from '../http/parse-body.ts';
import {
  type EmbeddedInputs,
  type EmbeddingRequest,
  embedInputs,
  embedPrompts,
  promptUsage,
  vectorList,
} from '../jobs/embed-inputs.ts';
import type { ServeOptions } from '../jobs/serve-completion.ts';
import { requestContext } from '../request/request-scope.ts';
import { type EmbeddingBody, embeddingRules, rerankRules } from './schemas/embeddings.ts';
import { splitPrompt } from './schemas/prompts.ts';

export async function serveEmbeddings(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
  { forceLow }: ServeOptions,
): Promise<FastifyReply> {
  const body = readBody(embeddingRules, request, reply);
  const { model: modelName, dimensions, encoding_format: format = 'float' } = body;
  const nameOf = inputName(body);
  const asked: EmbeddingRequest = {
    ...requestContext(context, request, reply),
    modelName,
    inputs: embedPrompts(splitPrompt(body.input), nameOf, context.settings.maxEmbeddingInputs),
    nameOf,
    dimensions,
    forceLow,
    check: (model) => checkDimensions(dimensions, model, 'dimensions'),
  };
  await embedInputs(asked, async (embedded) => {
    reply.type('application/json; charset=utf-8').send(await answerText(embedded, format));
  });
  return reply;
}

function inputName({ input }: EmbeddingBody): (at: number) => string {
  const isLone = splitPrompt(input)[0] === input;
  return (at) => (isLone ? 'input' : `input[${at}]`);
}

async function answerText(
  { model, vectors, usage }: EmbeddedInputs,
  format: NonNullable<EmbeddingBody['encoding_format']>,
): Promise<string> {
  const data = await vectorList(vectors, (vector, index) => {
    const embedding = format === 'base64' ? base64Of(vector) : Array.from(vector);
    return JSON.stringify({ object: 'embedding', index, embedding });
  });
  const rest = JSON.stringify({ model: model.name, usage: promptUsage(usage) });
  return `{"object":"list","data":${data},${rest.slice(1)}`;
}

/** Little-endian float32, whatever the machine. */
function base64Of(vector: Float32Array): string {
  const bytes = Buffer.alloc(4 * vector.length);
  for (const [at, value] of vector.entries()) bytes.writeFloatLE(value, 4 * at);
  return bytes.toString('base64');
}

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
