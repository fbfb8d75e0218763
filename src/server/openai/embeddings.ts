// POST /v1/embeddings, in OpenAI's shape.

import type { FastifyReply, FastifyRequest } from 'fastify';
import { checkDimensions } from '../../generation/embedding.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { ServerContext } from '../context.ts';
import { readBody } from '../http/parse-body.ts';
import { embedPrompts, promptUsage, vectorList } from '../jobs/embed-inputs.ts';
import { type EmbeddedTexts, embedTexts } from '../jobs/embed-texts.ts';
import type { ServeOptions } from '../jobs/serve-completion.ts';
import { requestContext } from '../request/request-scope.ts';
import { type EmbeddingBody, embeddingRules } from './schemas/embeddings.ts';
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
  const inputs = embedPrompts(splitPrompt(body.input), nameOf, context.settings.maxEmbeddingInputs);
  const asked = {
    ...requestContext(context, request, reply),
    modelName,
    plan: { inputs, nameOf },
    sequences: inputs.length,
    dimensions,
    forceLow,
    check: (model: ServedModel) => checkDimensions(dimensions, model, 'dimensions'),
  };
  await embedTexts(asked, async (embedded) => {
    reply.type('application/json; charset=utf-8').send(await answerText(embedded, format));
  });
  return reply;
}

function inputName({ input }: EmbeddingBody): (at: number) => string {
  const isLone = splitPrompt(input)[0] === input;
  return (at) => (isLone ? 'input' : `input[${at}]`);
}

async function answerText(
  { model, vectors, usage }: EmbeddedTexts,
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
