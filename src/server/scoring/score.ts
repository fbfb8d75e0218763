// POST /score, /classify and /pooling, as vLLM has them: pairs of texts to scores, texts to the labels of a classifier, texts to what
// the model's head or pooling gives.

import { randomUUID } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { classifierOf, scoresOf } from '../../generation/embedding.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { ServerContext } from '../context.ts';
import { badRequest } from '../http/errors.ts';
import { readBody } from '../http/parse-body.ts';
import { type EmbeddedInputs, embedInputs, embedPrompts, promptUsage, rowsOf } from '../jobs/embed-inputs.ts';
import { splitPrompt } from '../openai/schemas/prompts.ts';
import { type RequestContext, requestContext } from '../request/request-scope.ts';
import { cutsOf } from './rerank.ts';
import { classifyRules, type classifySchema, poolingRules, scoreRules } from './schemas.ts';
import { scorePairs } from './score-pairs.ts';

export async function serveScore(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const body = readBody(scoreRules, request, reply);
  const listed = (given: string | readonly string[]) => (typeof given === 'string' ? [given] : given);
  const [queries, documents] = [listed(body.text_1), listed(body.text_2)];
  if (queries.length !== 1 && queries.length !== documents.length) {
    throw badRequest(
      'text_1',
      `has ${queries.length} texts, and text_2 ${documents.length}; give one, or one for each`,
    );
  }
  const named = (name: 'text_1' | 'text_2') => (at: number) =>
    typeof body[name] === 'string' ? name : `${name}[${at}]`;
  const asked = {
    ...requestContext(context, request, reply),
    modelName: body.model,
    queries,
    documents,
    names: { query: named('text_1'), document: named('text_2'), raw: 'use_activation' },
    instruction: body.instruction,
    cuts: cutsOf(body),
    raw: body.use_activation === false,
  };
  await scorePairs(asked, async ({ model, scores, usage }) => {
    const data = scores.map((score, index) => ({ index, object: 'score', score }));
    reply.send({ ...heading('score', model), data, usage: promptUsage(usage) });
  });
  return reply;
}

type ClassifyBody = z.infer<typeof classifySchema>;

export async function serveClassify(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const body = readBody(classifyRules, request, reply);
  const asked = { ...requestContext(context, request, reply), body, mustClassify: true };
  await compute(asked, async ({ model, vectors, usage }) => {
    const { labels } = classifierOf(model);
    const data = vectors.map((outputs, index) => {
      const probs = scored(outputs, model, body);
      const best = probs.indexOf(Math.max(...probs));
      return { index, label: labels[best], probs, num_classes: labels.length };
    });
    reply.send({ ...heading('classify', model), data, usage: promptUsage(usage) });
  });
  return reply;
}

export async function servePooling(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const body = readBody(poolingRules, request, reply);
  const { task } = body;
  const eachToken = task === 'token_embed';
  const asked = {
    ...requestContext(context, request, reply),
    body,
    mustClassify: task === 'classify',
    eachToken,
    mayClassify: task !== 'embed',
  };
  await compute(asked, async ({ model, vectors, usage }) => {
    const data = vectors.map((vector, index) => {
      if (eachToken) return { index, object: 'pooling', data: rowsOf(vector, model) };
      const values = model.classifier === undefined ? Array.from(vector) : scored(vector, model, body);
      return { index, object: 'pooling', data: values };
    });
    reply.send({ ...heading('pool', model), data, usage: promptUsage(usage) });
  });
  return reply;
}

interface ClassifyCall extends RequestContext {
  readonly body: ClassifyBody;
  /** Otherwise a model that embeds texts gives vectors. */
  readonly mustClassify: boolean;
  /** Default true. */
  readonly mayClassify?: boolean;
  readonly eachToken?: boolean;
}

async function compute(
  { body, mustClassify, mayClassify = true, eachToken = false, ...incoming }: ClassifyCall,
  answer: (embedded: EmbeddedInputs) => Promise<void>,
): Promise<void> {
  const several = splitPrompt(body.input);
  const nameOf = (at: number) => (several[0] === body.input ? 'input' : `input[${at}]`);
  const inputs = embedPrompts(several, nameOf, incoming.context.settings.maxEmbeddingInputs);
  const plan = (model: ServedModel) => ({
    inputs,
    nameOf,
    classifies: !eachToken && (mustClassify || (mayClassify && model.classifier !== undefined)),
    eachToken,
  });
  const options = {
    modelName: body.model,
    plan,
    sequences: inputs.length,
    cuts: cutsOf(body),
    forceLow: false,
  };
  await embedInputs({ ...incoming, ...options }, answer);
}

function scored(
  outputs: Float32Array,
  model: ServedModel,
  { use_activation: activated }: ClassifyBody,
): number[] {
  return activated === false ? [...outputs] : scoresOf(outputs, classifierOf(model));
}

function heading(mark: string, { name }: ServedModel): object {
  const created = Math.floor(Date.now() / 1000);
  return { id: `${mark}-${randomUUID()}`, object: 'list', created, model: name };
}
