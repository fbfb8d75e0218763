// /api/create and /api/copy: models with a name, a system prompt and parameters of their own on top of one that is served.

import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { ServerContext } from '../context.ts';
import { ApiError, badRequest } from '../http/errors.ts';
import { type BodyRules, parseBody, readBody, rulesFor } from '../http/parse-body.ts';
import { named } from '../request/find-model.ts';
import { resolveModel, withoutTag } from './names.ts';
import { optionRules, optionsSchema } from './options.ts';
import { checkTemplate } from './prompt-template.ts';

const text = z.string().optional();

export const createSchema = z.object({
  model: text,
  name: text.meta({ description: 'The same.' }),
  from: text.meta({ description: 'A model that is served, an adapter of one, or one that was created.' }),
  system: text,
  template: text.meta({ description: "In the language of Go's text/template." }),
  messages: z
    .array(z.looseObject({ role: z.enum(['system', 'user', 'assistant']), content: z.string() }))
    .meta({ description: 'What every conversation begins with.' })
    .optional(),
  parameters: z.record(z.string(), z.unknown()).meta({ description: 'Options of every request.' }).optional(),
  license: z.union([z.string(), z.array(z.string())]).optional(),
  stream: z.boolean().optional(),
});

const notEmpty = (problem: string) => (value: unknown) =>
  value === '' || (typeof value === 'object' && value !== null && Object.keys(value).length === 0)
    ? undefined
    : problem;

const createRules: BodyRules<typeof createSchema> = {
  schema: createSchema,
  noOps: [],
  refused: {
    adapters: notEmpty(
      "the server's setting --adapter names adapters; give the name model:adapter in from instead",
    ),
    files: notEmpty('weights are not sent here; put them into the models folder, or pull them'),
    quantize: notEmpty('models are not quantized here'),
    modelfile: notEmpty('give its lines as fields: from, system, parameters, messages, license'),
  },
};

export const copySchema = z.object({ source: z.string(), destination: z.string() });

const parametersSchema = z.object({ parameters: optionsSchema });
const parametersRules: BodyRules<typeof parametersSchema> = {
  ...rulesFor(parametersSchema),
  inner: { parameters: optionRules },
};

export function create(context: ServerContext, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const body = readBody(createRules, request, reply);
  const { from, system, template, messages, parameters, license, stream = true } = body;
  const given = body.model ?? body.name;
  if (!given) throw badRequest('model', 'is missing', 'missing_required_parameter');
  if (!from) throw badRequest('from', 'is missing', 'missing_required_parameter');
  checkParameters(parameters);
  if (template) checkTemplate(template);
  const name = freeName(context, given, 'model');
  const { entry, created } = resolveModel(context, from);
  context.createdModels.save({
    ...created,
    name,
    from: entry.name,
    ...(system === undefined ? {} : { system }),
    ...(template ? { template } : {}),
    ...(messages === undefined ? {} : { messages }),
    ...(parameters === undefined ? {} : { parameters: { ...created?.parameters, ...parameters } }),
    ...(license === undefined ? {} : { license: [license].flat() }),
    createdMs: Date.now(),
  });
  const success = { status: 'success' };
  return stream
    ? reply.type('application/x-ndjson').send(`${JSON.stringify(success)}\n`)
    : reply.send(success);
}

export function copy(context: ServerContext, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const { source, destination } = readBody(rulesFor(copySchema), request, reply);
  const name = freeName(context, destination, 'destination');
  const { entry, created } = resolveModel(context, source);
  context.createdModels.save({ ...created, name, from: entry.name, createdMs: Date.now() });
  return reply.code(200).send();
}

/** An unknown name is as wrong here as in a request; values are checked when they are used. */
function checkParameters(parameters: Readonly<Record<string, unknown>> | undefined): void {
  if (parameters === undefined) return;
  const [unknown] = parseBody(parametersRules, { parameters }).unknown;
  if (unknown !== undefined) throw badRequest(unknown, 'is not a known parameter', 'unknown_parameter');
}

function freeName({ createdModels, pool }: ServerContext, given: string, param: string): string {
  if (!createdModels.possible) {
    throw new ApiError(501, 'this server has no models folder to keep it in', { code: 'not_supported' });
  }
  const name = withoutTag(given);
  if (named(pool.list(), name) === undefined) return name;
  throw new ApiError(409, `${param}: '${name}' is the name of a model that is served`, {
    param,
    code: 'model_exists',
  });
}
