// The API of Ollama: /api/*. Models are pulled and deleted with admin keys alone.

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { ModelCards } from '../../pool/model-card.ts';
import { liesIn, removeModel } from '../../pool/remove-model.ts';
import type { ServerContext } from '../context.ts';
import { ApiError, badRequest } from '../http/errors.ts';
import { type BodyRules, parseBody, unknownWarning } from '../http/parse-body.ts';
import type { Protocol } from '../jobs/protocol.ts';
import { serveCompletion } from '../jobs/serve-completion.ts';
import type { SamplingBody } from '../openai/schemas/sampling.ts';
import { embedRoutes } from './embed.ts';
import { loadOrUnload } from './load-model.ts';
import { listModels, runningModels, showModel } from './models.ts';
import { findModel } from './names.ts';
import { chatProtocol, generateProtocol, rawProtocol } from './protocol.ts';
import { pull, type RunningPulls } from './pull.ts';
import { chatRules, generateRules } from './schema.ts';
import { emptyAnswer, inMessage, inResponse, type Place } from './shape.ts';
import { untilListed } from './until-listed.ts';

/** Clients ask for it to know what they may send: the version of Ollama whose API this is. */
export const API_VERSION = '0.12.11';

const config = { errorBody: ({ message }: ApiError) => ({ error: message }) };

const modelName = z.string().optional();
export const showSchema = z.object({ model: modelName, name: modelName.meta({ description: 'The same.' }) });
export const pullSchema = z.object({ ...showSchema.shape, stream: z.boolean().optional() });

const showRules: BodyRules<typeof showSchema> = {
  schema: showSchema,
  noOps: ['system', 'template', 'options'],
  refused: {
    verbose: (value) => (value === false ? undefined : 'is not supported: lists are left out of model_info'),
  },
};
const pullRules: BodyRules<typeof pullSchema> = {
  schema: pullSchema,
  noOps: ['username', 'password'],
  refused: {
    insecure: (value) =>
      value === false ? undefined : "is not supported; the server's settings name its hub",
  },
};
const deleteRules: BodyRules<typeof showSchema> = { schema: showSchema, noOps: [], refused: {} };

export function ollamaRoutes(app: FastifyInstance, context: ServerContext): void {
  const cards = new ModelCards();
  const answer =
    <Schema extends z.ZodObject, Body extends SamplingBody>(protocol: Protocol<Schema, Body>): Serve =>
    (request, reply) =>
      serveCompletion(context, protocol, request, reply, { forceLow: false });
  answerRoute(app, context, { url: '/api/chat', rules: chatRules, place: inMessage }, (given) =>
    (given.messages ?? []).length === 0 ? undefined : answer(chatProtocol),
  );
  answerRoute(app, context, { url: '/api/generate', rules: generateRules, place: inResponse }, (given) => {
    const { prompt = '', suffix = '', raw = false } = given;
    if (prompt === '' && suffix === '') return undefined;
    return raw || suffix !== '' ? answer(rawProtocol) : answer(generateProtocol);
  });
  embedRoutes(app, context, config);
  app.get('/api/tags', { config }, () => listModels(context, cards));
  app.get('/api/ps', { config }, () => runningModels(context, cards));
  app.get('/api/version', { config }, async () => ({ version: API_VERSION, chairlift: context.version }));
  app.post('/api/show', { config }, async (request) => {
    const { body } = parseBody(showRules, request.body);
    return showModel(context, findModel(context, nameOf(body)), cards);
  });
  for (const { method, url, status, message } of absent) {
    app.route({
      method,
      url,
      config,
      handler: async () => {
        throw new ApiError(status, message, { code: 'not_supported' });
      },
    });
  }
}

/** What changes the models that there are. */
export function ollamaAdminRoutes(app: FastifyInstance, context: ServerContext): void {
  const running: RunningPulls = new Set();
  app.post('/api/pull', { config }, async (request, reply) => {
    const { body } = parseBody(pullRules, request.body);
    return pull(context, { model: nameOf(body), stream: body.stream ?? true }, running, request, reply);
  });
  app.delete('/api/delete', { config }, async (request, reply) => {
    const { body } = parseBody(deleteRules, request.body);
    await deleteModel(context, nameOf(body));
    return reply.code(200).send();
  });
}

type Serve = (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>;

interface AnswerRoute<Schema extends z.ZodObject> {
  readonly url: string;
  readonly rules: BodyRules<Schema>;
  readonly place: Place;
}

/** `serveOf` gives nothing where nothing is asked of the model. */
function answerRoute<Schema extends typeof chatRules.schema | typeof generateRules.schema>(
  app: FastifyInstance,
  context: ServerContext,
  { url, rules, place }: AnswerRoute<Schema>,
  serveOf: (given: z.infer<Schema>) => Serve | undefined,
): void {
  app.post(url, { config }, async (request, reply) => {
    const { body, unknown } = parseBody(rules, request.body);
    const serve = serveOf(body);
    if (serve !== undefined) return serve(request, reply);
    if (unknown.length > 0) reply.header('x-chairlift-warning', unknownWarning(unknown));
    return loadOrUnload(context, body, (reason) => emptyAnswer(body.model, place, reason), request, reply);
  });
}

async function deleteModel(context: ServerContext, given: string): Promise<void> {
  const { pool, downloads } = context;
  const { name, path, adapterOf } = findModel(context, given);
  if (downloads === undefined || adapterOf !== undefined || !liesIn(downloads.folder, path)) {
    const message = `model '${given}' is not in the models folder, and only what lies there can be deleted`;
    throw new ApiError(409, message, { code: 'model_not_deletable' });
  }
  if (!(await pool.unload(name))) {
    throw new ApiError(409, `model '${given}' is in use; try again later`, { code: 'model_busy' });
  }
  await removeModel(downloads.folder, path);
  await untilListed(pool, path, false);
}

/** Both names are in use. */
function nameOf({ model, name }: z.infer<typeof showSchema>): string {
  const given = model || name;
  if (given) return given;
  throw badRequest('model', 'is missing', 'missing_required_parameter');
}

const notMade = {
  status: 501,
  message: 'models are not made here; put a GGUF or safetensors into the models folder, or pull one',
};

const absent = [
  { method: 'POST', url: '/api/create', ...notMade },
  { method: 'POST', url: '/api/blobs/:digest', ...notMade },
  { method: 'HEAD', url: '/api/blobs/:digest', ...notMade },
  { method: 'POST', url: '/api/push', status: 501, message: 'models are not published from here' },
  {
    method: 'POST',
    url: '/api/copy',
    status: 501,
    message: "models are not copied; the server's setting alias gives one a further name",
  },
] as const;
