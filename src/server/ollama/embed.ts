// /api/embed and the older /api/embeddings: texts to vectors. Without a text the model is loaded, or unloaded.

import type { FastifyReply, FastifyRequest } from 'fastify';
import { checkDimensions } from '../../generation/embedding.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { ServerContext } from '../context.ts';
import { warn } from '../http/errors.ts';
import { readBody } from '../http/parse-body.ts';
import { embedPrompts, vectorList } from '../jobs/embed-inputs.ts';
import { type EmbeddedTexts, embedTexts } from '../jobs/embed-texts.ts';
import { type RequestContext, requestContext } from '../request/request-scope.ts';
import { idleMsOf, loadOrUnload } from './keep-alive.ts';
import { findModel } from './names.ts';
import { keepAliveNotes, roomNotes } from './protocol.ts';
import { type EmbedGiven, embeddingsRules, embedRules } from './schema.ts';
import { nanoseconds } from './shape.ts';

export async function serveEmbed(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<object> {
  const body = readBody(embedRules, request, reply);
  const { input = [] } = body;
  const texts = Array.isArray(input) ? input : [input].filter((text) => text !== '');
  const nothing = { model: body.model, embeddings: [] };
  if (texts.length === 0) return loadOrUnload(context, body, () => nothing, request, reply);
  const nameOf = (at: number) => (Array.isArray(input) ? `input[${at}]` : 'input');
  const asked = { ...requestContext(context, request, reply), body, texts, nameOf };
  return embed(asked, (done) => embedText(body.model, done));
}

/** The older form, which takes one text. */
export async function serveEmbeddings(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<object> {
  const body = readBody(embeddingsRules, request, reply);
  const { prompt = '', ...rest } = body;
  if (prompt === '') return loadOrUnload(context, body, () => ({ embedding: [] }), request, reply);
  const asked = {
    ...requestContext(context, request, reply),
    body: { ...rest, truncate: false },
    texts: [prompt],
    nameOf: () => 'prompt',
  };
  return embed(asked, async ({ vectors: [vector] }) =>
    JSON.stringify({ embedding: Array.from(vector ?? []) }),
  );
}

interface EmbedCall extends RequestContext {
  readonly body: EmbedGiven;
  readonly texts: readonly string[];
  /** What the client calls each text. */
  readonly nameOf: (at: number) => string;
}

async function embed(
  { body, texts, ...rest }: EmbedCall,
  textOf: (embedded: EmbeddedTexts) => Promise<string>,
): Promise<FastifyReply> {
  const { context, reply, caller, nameOf } = rest;
  const { model: given, truncate = true, dimensions: wanted = 0, keep_alive } = body;
  const dimensions = wanted === 0 ? undefined : wanted;
  const inputs = embedPrompts(texts, nameOf, context.settings.maxEmbeddingInputs);
  const asked = {
    ...rest,
    modelName: findModel(context, given).name,
    plan: { inputs, nameOf },
    sequences: inputs.length,
    dimensions,
    cuts: truncate,
    cutsBy: body.truncate === true ? 'truncate' : undefined,
    forceLow: false,
    idleMs: idleMsOf(keep_alive, caller),
    check(model: ServedModel) {
      checkDimensions(dimensions, model, 'dimensions');
      warn(reply, [...roomNotes(body, model), ...keepAliveNotes(body, caller)]);
    },
  };
  await embedTexts(asked, async (embedded) => {
    reply.type('application/json; charset=utf-8').send(await textOf(embedded));
  });
  return reply;
}

async function embedText(model: string, { vectors, usage, times }: EmbeddedTexts): Promise<string> {
  const embeddings = await vectorList(vectors, (vector) => JSON.stringify(Array.from(vector)));
  const rest = JSON.stringify({
    total_duration: nanoseconds(times.totalMs),
    load_duration: nanoseconds(times.loadMs),
    prompt_eval_count: usage.promptTokens,
  });
  return `{"model":${JSON.stringify(model)},"embeddings":${embeddings},${rest.slice(1)}`;
}
