// llama-server's own routes, for scripts and editors that were written for it. Its OpenAI routes are in `openai/`.

import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { ModelEntry } from '../../pool/model-pool.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import { load, modelNameSchema, unload } from '../admin/models.ts';
import type { ServerContext } from '../context.ts';
import { type ApiError, badRequest } from '../http/errors.ts';
import { rulesNote } from '../http/parse-body.ts';
import { resumptionOf } from '../jobs/resumption.ts';
import { serveCompletion } from '../jobs/serve-completion.ts';
import { NO_TOKENS } from '../limits/key-limiter.ts';
import { textProtocol } from '../openai/completions.ts';
import { serveEmbeddings } from '../openai/embeddings.ts';
import { textSchema } from '../openai/schemas/completions.ts';
import { embeddingSchema as openAiEmbeddingSchema } from '../openai/schemas/embeddings.ts';
import { callerOf, refuseForeignPage } from '../request/auth.ts';
import { findEntry } from '../request/find-model.ts';
import { requestContext, withRequestScope } from '../request/request-scope.ts';
import type { Route } from '../route.ts';
import { completionAnswerSchema } from './answers.ts';
import { embeddingAnswerSchema, embeddingSchema, serveEmbedding } from './embedding.ts';
import { nativeError } from './errors.ts';
import { listedAdapters, type ScaledAdapter, setAdapters } from './lora.ts';
import { KnownProps, loadedModel, shownProps } from './props.ts';
import { completionProtocol, infillProtocol } from './protocol.ts';
import {
  adapterScalesSchema,
  completionRules,
  completionSchema,
  infillRules,
  infillSchema,
} from './schema.ts';
import { actOnSlot, slotActionSchema, slotAnswerSchema } from './slot-actions.ts';
import { slotsOf } from './slots.ts';

const usual = { forceLow: false };
const config = { errorBody: nativeError };
const eitherConfig = {
  errorBody: (error: ApiError, { body }: FastifyRequest) =>
    namesModel(body) ? error.body() : nativeError(error),
};
const answers = {
  answer: z.union([completionAnswerSchema, z.array(completionAnswerSchema)]),
  chunk: completionAnswerSchema,
};
const changedSchema = z.strictObject({ success: z.literal(true) });
const eitherNote =
  'A body with a model is read and answered as at the path with /v1, one without as llama-server does.';

export function llamaServerRoutes(context: ServerContext): readonly Route[] {
  const complete = (request: FastifyRequest, reply: FastifyReply) =>
    serveCompletion(context, completionProtocol, request, reply, usual);
  const known = new KnownProps(context);
  /** May load the model: no page of another site may have that done, even by an image. */
  const describe = async (entry: ModelEntry, request: FastifyRequest, reply: FastifyReply) => {
    refuseForeignPage(request, context.settings.corsOrigins, 'even to read');
    const add = async (model: ServedModel) => known.add(entry, model);
    return known.find(entry) ?? (await withModel(context, entry, request, reply, add));
  };
  return [
    {
      method: 'POST',
      url: '/completion',
      access: 'key',
      summary: 'Continue a text, as llama-server does',
      description: rulesNote(completionRules),
      body: completionSchema,
      takesImages: true,
      ...answers,
      config,
      handler: complete,
    },
    {
      method: 'POST',
      url: '/completions',
      access: 'key',
      summary: 'Continue a text, as llama-server or as OpenAI does',
      description: eitherNote,
      body: z.union([completionSchema, textSchema]),
      takesImages: true,
      config: eitherConfig,
      handler: async (request, reply) =>
        namesModel(await bodyOf(context, request))
          ? serveCompletion(context, textProtocol, request, reply, usual)
          : complete(request, reply),
    },
    {
      method: 'POST',
      url: '/infill',
      access: 'key',
      summary: 'Fill a gap in a text, as llama-server does',
      description: rulesNote(infillRules),
      body: infillSchema,
      ...answers,
      config,
      handler: (request, reply) => serveCompletion(context, infillProtocol, request, reply, usual),
    },
    {
      method: 'POST',
      url: '/embedding',
      access: 'key',
      summary: 'Texts to vectors, as llama-server does',
      body: embeddingSchema,
      answer: embeddingAnswerSchema,
      config,
      handler: (request, reply) => serveEmbedding(context, request, reply),
    },
    {
      method: 'POST',
      url: '/embeddings',
      access: 'key',
      summary: 'Texts to vectors, as llama-server or as OpenAI does',
      description: eitherNote,
      body: z.union([embeddingSchema, openAiEmbeddingSchema]),
      config: eitherConfig,
      handler: (request, reply) =>
        namesModel(request.body)
          ? serveEmbeddings(context, request, reply, usual)
          : serveEmbedding(context, request, reply),
    },
    {
      method: 'GET',
      url: '/props',
      access: 'key',
      summary: 'A model and its defaults, as llama-server describes them',
      description:
        '?model= names another one than the default model. One that was never described is loaded; asking keeps no model from being unloaded.',
      handler: async (request, reply) => {
        const entry = findEntry(context.pool, modelAsked(request));
        const props = await describe(entry, request, reply);
        return shownProps(props, findEntry(context.pool, entry.name), callerOf(request));
      },
    },
    {
      method: 'GET',
      url: '/slots',
      access: 'key',
      summary: 'The sequences that run, as llama-server lists its slots',
      description:
        '?model= names another one than the default model; ?fail_on_no_slot=1 answers 503 where none is free.',
      handler: async (request, reply) => {
        const entry = findEntry(context.pool, modelAsked(request));
        const { default_generation_settings: defaults } = await describe(entry, request, reply);
        return slotsOf(context, loadedModel(context.pool, entry), defaults.n_ctx, request);
      },
    },
    {
      method: 'POST',
      url: '/slots/:id',
      access: 'key',
      summary: 'Save, restore or erase what a slot holds, as llama-server does',
      description:
        '?action= is save, restore or erase. ?model= names another one than the default model. 501 where the server has no --slot-save-path.',
      body: slotActionSchema,
      answer: slotAnswerSchema,
      config,
      handler: (request, reply) =>
        actOnSlot(context, request, reply, (entry, use) => withModel(context, entry, request, reply, use)),
    },
    {
      method: 'GET',
      url: '/lora-adapters',
      access: 'key',
      summary: 'The adapters of a model, as llama-server lists them',
      handler: async (request) =>
        listedAdapters(context.pool, modelAsked(request), callerOf(request), context.defaultAdapters),
    },
    {
      method: 'POST',
      url: '/lora-adapters',
      access: 'admin',
      summary: 'Which adapter answers of /completion and /infill have where a request says nothing',
      description: '?model= names another one than the default model.',
      body: adapterScalesSchema,
      answer: changedSchema,
      handler: async (request) => {
        const scales = parseScales(request.body);
        setAdapters(context.pool, modelAsked(request), scales, context.defaultAdapters);
        return { success: true };
      },
    },
    {
      method: 'POST',
      url: '/models/load',
      access: 'admin',
      summary: "Load a model, as llama-server's router does",
      body: modelNameSchema,
      answer: changedSchema,
      handler: async (request) => {
        await load(context, request);
        return { success: true };
      },
    },
    {
      method: 'POST',
      url: '/models/unload',
      access: 'admin',
      summary: "Unload a model, as llama-server's router does",
      body: modelNameSchema,
      answer: changedSchema,
      handler: async (request) => {
        await unload(context, request);
        return { success: true };
      },
    },
  ];
}

function parseScales(body: unknown): readonly ScaledAdapter[] {
  const { success, data } = adapterScalesSchema.safeParse(body);
  if (success) return data;
  throw badRequest('lora', 'must be a list of objects with an id and a scale');
}

/** OpenAI's clients always name a model, llama-server's hardly ever. */
function namesModel(body: unknown): boolean {
  return typeof body !== 'object' || body === null || 'model' in body;
}

/** A request that is resumed may come without its body. */
async function bodyOf(context: ServerContext, request: FastifyRequest): Promise<unknown> {
  const resumption = await resumptionOf(context, request);
  return resumption === undefined ? request.body : JSON.parse(resumption.kept.body);
}

function modelAsked({ query }: FastifyRequest): string | undefined {
  const { model } = query as Record<string, unknown>;
  return typeof model === 'string' ? model : undefined;
}

function withModel<Answer>(
  context: ServerContext,
  { name: modelName }: ModelEntry,
  request: FastifyRequest,
  reply: FastifyReply,
  use: (model: ServedModel) => Promise<Answer>,
): Promise<Answer> {
  const options = { modelName, demand: NO_TOKENS, sequences: 0 };
  return withRequestScope(requestContext(context, request, reply), options, ({ model }) => use(model));
}
