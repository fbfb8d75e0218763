// POST /embedding and /embeddings as llama-server answers them: a list with the vectors of each text.

import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { ServerContext } from '../context.ts';
import { badRequest } from '../http/errors.ts';
import { type BodyRules, readBody } from '../http/parse-body.ts';
import { embedInputs, embedPrompts, rowsOf, vectorList } from '../jobs/embed-inputs.ts';
import { promptField, splitPrompt } from '../openai/schemas/prompts.ts';
import { samplingFields, sharedNoOps } from '../openai/schemas/sampling.ts';
import { requestContext } from '../request/request-scope.ts';

export const embeddingSchema = z.object({
  model: samplingFields.model,
  content: promptField('What to embed; give it or input.').optional(),
  input: promptField('The same as content.').optional(),
  embd_normalize: z
    .int()
    .min(-1)
    .max(64)
    .meta({
      description:
        'Which norm of each vector becomes 1: 1 is the sum of absolute values, 2 the length. 0 scales the largest value to 32760, -1 leaves vectors as they are. Default 2.',
    })
    .optional(),
  pooling: z
    .literal('none')
    .meta({ description: 'A vector for each token, as it is. Default: one for each text.' })
    .optional(),
});

const rules: BodyRules<typeof embeddingSchema> = {
  schema: embeddingSchema,
  noOps: sharedNoOps,
  refused: {},
  tokenLists: ['content', 'input'],
};

export const embeddingAnswerSchema = z.array(
  z.strictObject({ index: z.int(), embedding: z.array(z.array(z.number())) }),
);

export async function serveEmbedding(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { model: modelName, content, input, embd_normalize: norm, pooling } = readBody(rules, request, reply);
  const eachToken = pooling === 'none';
  if (eachToken && norm !== undefined && norm !== -1)
    throw badRequest('embd_normalize', 'only -1 is possible where vectors are not pooled');
  const name = content === undefined ? 'input' : 'content';
  const given = content ?? input;
  if (given === undefined) throw badRequest('content', 'is missing', 'missing_required_parameter');
  const several = splitPrompt(given);
  const nameOf = (at: number) => (several[0] === given ? name : `${name}[${at}]`);
  const inputs = embedPrompts(several, nameOf, context.settings.maxEmbeddingInputs);
  const asked = {
    ...requestContext(context, request, reply),
    modelName,
    plan: { inputs, nameOf, eachToken },
    sequences: inputs.length,
    norm,
    forceLow: false,
  };
  await embedInputs(asked, async ({ model, vectors }) => {
    // A list also where there is one vector.
    const answer = await vectorList(vectors, (vector, index) =>
      JSON.stringify({ index, embedding: eachToken ? rowsOf(vector, model) : [Array.from(vector)] }),
    );
    reply.type('application/json; charset=utf-8').send(answer);
  });
  return reply;
}
