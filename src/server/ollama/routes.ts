// The API of Ollama: /api/*.

import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { ModelCards } from '../../pool/model-card.ts';
import { removeModel } from '../../pool/remove-model.ts';
import { brokenModelsOf, canDelete } from '../admin/models.ts';
import type { ServerContext } from '../context.ts';
import { ApiError, badRequest, warnOfUnknown } from '../http/errors.ts';
import { type BodyRules, parseBody, rulesFor } from '../http/parse-body.ts';
import { serveCompletion } from '../jobs/serve-completion.ts';
import type { Route } from '../route.ts';
import {
  chatLineSchema,
  embeddedSchema,
  embeddingSchema,
  generateLineSchema,
  ollamaErrorSchema,
  progressSchema,
  runningSchema,
  shownSchema,
  tagsSchema,
  versionSchema,
} from './answers.ts';
import { copy, copySchema, create, createSchema } from './create.ts';
import { serveEmbed, serveEmbeddings } from './embed.ts';
import { loadOrUnload } from './keep-alive.ts';
import { listModels, runningModels, showModel } from './models.ts';
import { findOwnModel, resolveModel, withoutTag } from './names.ts';
import {
  chatProtocol,
  generateProtocol,
  rawProtocol,
  templatedChatProtocol,
  templatedProtocol,
} from './protocol.ts';
import { pull, untilListed } from './pull.ts';
import { templateOf } from './read.ts';
import {
  chatRules,
  chatSchema,
  embeddingsSchema,
  embedSchema,
  generateRules,
  generateSchema,
} from './schema.ts';
import { emptyAnswer, messageLayout, responseLayout } from './shape.ts';

/** The version of Ollama whose API this is; clients decide by it what they may send. */
const API_VERSION = '0.12.11';

const config = { errorBody: ({ message }: ApiError) => ({ error: message }) };

const modelName = z.string().optional();
const showSchema = z.object({ model: modelName, name: modelName.meta({ description: 'The same.' }) });
const pullSchema = z.object({ ...showSchema.shape, stream: z.boolean().optional() });

const verboseSchema = showSchema.extend({
  verbose: z.boolean().meta({ description: 'With the vocabulary and the tensors.' }).optional(),
});

const showRules: BodyRules<typeof verboseSchema> = {
  ...rulesFor(verboseSchema),
  noOps: ['system', 'template', 'options'],
};
const pullRules: BodyRules<typeof pullSchema> = {
  schema: pullSchema,
  noOps: ['username', 'password'],
  refused: {
    insecure: (value) =>
      value === false ? undefined : "is not supported; the server's settings name its hub",
  },
};

/** Pulling and deleting change which models there are, and so need an admin key. */
export function ollamaRoutes(context: ServerContext): readonly Route[] {
  const cards = new ModelCards();
  const common = {
    access: 'key',
    config,
    error: ollamaErrorSchema,
    chunkType: 'application/x-ndjson',
  } as const;
  const lines = (schema: z.ZodType) => ({ answer: schema, chunk: schema });
  return [
    {
      ...common,
      ...lines(chatLineSchema),
      method: 'POST',
      url: '/api/chat',
      takesImages: true,
      summary: 'Answer a conversation, as Ollama',
      body: chatSchema,
      handler: (request, reply) => answerChat(context, request, reply),
    },
    {
      ...common,
      ...lines(generateLineSchema),
      method: 'POST',
      url: '/api/generate',
      takesImages: true,
      summary: 'Answer a prompt, as Ollama',
      body: generateSchema,
      handler: (request, reply) => answerPrompt(context, request, reply),
    },
    {
      ...common,
      method: 'POST',
      url: '/api/embed',
      summary: 'Texts to vectors, as Ollama',
      body: embedSchema,
      answer: embeddedSchema,
      handler: (request, reply) => serveEmbed(context, request, reply),
    },
    {
      ...common,
      method: 'POST',
      url: '/api/embeddings',
      summary: 'A text to a vector, as Ollama did before',
      body: embeddingsSchema,
      answer: embeddingSchema,
      handler: (request, reply) => serveEmbeddings(context, request, reply),
    },
    {
      ...common,
      method: 'GET',
      url: '/api/tags',
      summary: 'List the models',
      answer: tagsSchema,
      handler: () => listModels(context, cards),
    },
    {
      ...common,
      method: 'GET',
      url: '/api/ps',
      summary: 'List the loaded models',
      answer: runningSchema,
      handler: () => runningModels(context, cards),
    },
    {
      ...common,
      method: 'POST',
      url: '/api/show',
      summary: 'What a model is',
      body: verboseSchema,
      answer: shownSchema,
      handler: async (request) => {
        const { body } = parseBody(showRules, request.body);
        return showModel(context, resolveModel(context, nameOf(body)), cards, body.verbose);
      },
    },
    {
      ...common,
      method: 'GET',
      url: '/api/version',
      summary: 'Whose API this is',
      answer: versionSchema,
      handler: async () => ({ version: API_VERSION, chairlift: context.version }),
    },
    {
      ...common,
      ...lines(progressSchema),
      method: 'POST',
      url: '/api/pull',
      access: 'admin',
      summary: 'Bring a model from the hub; needs an admin key',
      body: pullSchema,
      handler: async (request, reply) => {
        const { body } = parseBody(pullRules, request.body);
        const wanted = { model: nameOf(body), stream: body.stream ?? true };
        return pull(context, wanted, request, reply);
      },
    },
    {
      ...common,
      method: 'DELETE',
      url: '/api/delete',
      access: 'admin',
      summary: "Remove a model's files; needs an admin key",
      body: showSchema,
      handler: async (request, reply) => {
        const { body } = parseBody(rulesFor(showSchema), request.body);
        await deleteModel(context, nameOf(body));
        return reply.code(200).send();
      },
    },
    {
      ...common,
      ...lines(progressSchema),
      method: 'POST',
      url: '/api/create',
      access: 'admin',
      summary: 'Make a model of another, with parameters of its own; needs an admin key',
      body: createSchema,
      handler: (request, reply) => create(context, request, reply),
    },
    {
      ...common,
      method: 'POST',
      url: '/api/copy',
      access: 'admin',
      summary: 'Give a model a further name; needs an admin key',
      body: copySchema,
      handler: (request, reply) => copy(context, request, reply),
    },
    ...unsupportedRoutes.map(({ method, url, message }): Route => {
      const refusal = new ApiError(501, message, { code: 'not_supported' });
      return { method, url, access: 'key', config, handler: () => Promise.reject(refusal) };
    }),
  ];
}

const asUsual = { forceLow: false };

async function answerChat(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<object> {
  const { body, unknown } = parseBody(chatRules, request.body);
  if ((body.messages ?? []).length > 0) {
    const { created } = resolveModel(context, body.model);
    return templateOf(body, created) === undefined
      ? serveCompletion(context, chatProtocol, request, reply, asUsual)
      : serveCompletion(context, templatedChatProtocol, request, reply, asUsual);
  }
  warnOfUnknown(reply, unknown);
  const answer = (reason: 'load' | 'unload') => emptyAnswer(body.model, messageLayout, reason);
  return loadOrUnload(context, body, answer, request, reply);
}

async function answerPrompt(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<object> {
  const { body, unknown } = parseBody(generateRules, request.body);
  const { prompt = '', suffix = '', images, raw = false } = body;
  if (prompt === '' && suffix === '' && !images?.length) {
    warnOfUnknown(reply, unknown);
    const answer = (reason: 'load' | 'unload') => emptyAnswer(body.model, responseLayout, reason);
    return loadOrUnload(context, body, answer, request, reply);
  }
  if (raw || suffix !== '') return serveCompletion(context, rawProtocol, request, reply, asUsual);
  const { created } = resolveModel(context, body.model);
  return templateOf(body, created) === undefined
    ? serveCompletion(context, generateProtocol, request, reply, asUsual)
    : serveCompletion(context, templatedProtocol, request, reply, asUsual);
}

async function deleteModel(context: ServerContext, given: string): Promise<void> {
  const { pool, downloads, createdModels } = context;
  if (createdModels.remove(withoutTag(given))) return;
  const broken = brokenModelsOf(context).find(({ name }) => name === given);
  const entry = broken ?? findOwnModel(context, given);
  if (downloads === undefined || !canDelete(context, entry)) {
    const message = `model '${given}' is not in the models folder, and only what lies there can be deleted`;
    throw new ApiError(409, message, { code: 'model_not_deletable' });
  }
  if (broken === undefined && !(await pool.unload(entry.name))) {
    throw new ApiError(409, `model '${given}' is in use; try again later`, { code: 'model_busy' });
  }
  await removeModel(downloads.folder, entry.path);
  await untilListed(pool, entry.path, false);
}

function nameOf({ model, name }: z.infer<typeof showSchema>): string {
  const given = model || name;
  if (given) return given;
  throw badRequest('model', 'is missing', 'missing_required_parameter');
}

const notMade = 'weights are not sent here; put a GGUF or safetensors into the models folder, or pull one';

const unsupportedRoutes = [
  { method: 'POST', url: '/api/blobs/:digest', message: notMade },
  { method: 'HEAD', url: '/api/blobs/:digest', message: notMade },
  { method: 'POST', url: '/api/push', message: 'models are not published from here' },
] as const;
