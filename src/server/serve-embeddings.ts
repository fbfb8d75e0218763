// POST /v1/embeddings, in OpenAI's shape.

import { setImmediate } from 'node:timers/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { checkDimensions } from '../generation/embedding.ts';
import type { PromptInput } from '../generation/prompt.ts';
import type { ServerContext } from './context.ts';
import { type EmbeddedInputs, type EmbedOrder, embedInputs, promptUsage } from './embed-inputs.ts';
import { badRequest } from './errors.ts';
import { type EmbeddingBody, embeddingRules } from './schemas/embeddings.ts';
import { parseBody, unknownWarning } from './schemas/parse.ts';
import { splitPrompt } from './schemas/text.ts';
import type { ServeOptions } from './serve-completion.ts';

/** Numbers that are written before it is others' turn: millions take seconds. */
const NUMBERS_AT_ONCE = 65_536;

export async function serveEmbeddings(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
  { forceLow }: ServeOptions,
): Promise<FastifyReply> {
  const { body, unknown } = parseBody(embeddingRules, request.body);
  if (unknown.length > 0) reply.header('x-chairlift-warning', unknownWarning(unknown));
  const { model: modelName, dimensions, encoding_format: format = 'float' } = body;
  const order: EmbedOrder = {
    context,
    request,
    reply,
    modelName,
    inputs: inputsOf(body, context.settings.maxEmbeddingInputs),
    nameOf: inputName(body),
    dimensions,
    forceLow,
    check: (model) => checkDimensions(dimensions, model, 'dimensions'),
  };
  await embedInputs(order, async (embedded) => {
    reply.type('application/json; charset=utf-8').send(await answerText(embedded, format));
  });
  return reply;
}

function inputsOf(body: EmbeddingBody, most: number): readonly PromptInput[] {
  const several = splitPrompt(body.input);
  if (several.length > most) {
    throw badRequest('input', `${several.length} texts are too many; ${most} are possible`);
  }
  const empty = several.findIndex(({ length }) => length === 0);
  if (empty >= 0) throw badRequest(inputName(body)(empty), 'is empty, and there is nothing to embed');
  return several.map((one) =>
    typeof one === 'string' ? { kind: 'text', text: one, eos: true } : { kind: 'ids', ids: one },
  );
}

/** A lone text or list of ids has no number. */
function inputName({ input }: EmbeddingBody): (at: number) => string {
  const isLone = typeof input === 'string' || typeof input[0] === 'number';
  return (at) => (isLone ? 'input' : `input[${at}]`);
}

/** Written piece by piece: everybody else's answers go on meanwhile. */
async function answerText(
  { model, vectors, usage }: EmbeddedInputs,
  format: NonNullable<EmbeddingBody['encoding_format']>,
): Promise<string> {
  const entries: string[] = [];
  let numbers = 0;
  for (const [index, vector] of vectors.entries()) {
    const embedding = format === 'base64' ? base64Of(vector) : Array.from(vector);
    entries.push(JSON.stringify({ object: 'embedding', index, embedding }));
    numbers += vector.length;
    if (numbers < NUMBERS_AT_ONCE) continue;
    numbers = 0;
    await setImmediate();
  }
  const rest = JSON.stringify({ model: model.name, usage: promptUsage(usage) });
  return `{"object":"list","data":[${entries.join(',')}],${rest.slice(1)}`;
}

/** Little-endian float32, whatever the machine. */
function base64Of(vector: Float32Array): string {
  const bytes = Buffer.alloc(4 * vector.length);
  for (const [at, value] of vector.entries()) bytes.writeFloatLE(value, 4 * at);
  return bytes.toString('base64');
}
