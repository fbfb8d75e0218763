// The OpenAPI document, made from the very schemas that requests are checked against.

import { z } from 'zod';
import { benchSchema } from './admin/bench.ts';
import { drainSchema, placementSchema } from './admin/fleet.ts';
import { modelNameSchema, newKeySchema } from './admin/routes.ts';
import {
  anthropicErrorSchema,
  messageAnswerSchema,
  messageEventSchema,
  tokenCountSchema,
} from './anthropic/answers.ts';
import { countSchema, messagesRules, messagesSchema } from './anthropic/schema.ts';
import { batchSchema, newBatchSchema } from './batches/batch-object.ts';
import { fileDeletedSchema, fileSchema, uploadSchema } from './files/file-object.ts';
import { listSchema } from './http/list-page.ts';
import {
  chatLineSchema,
  embeddedSchema,
  generateLineSchema,
  embeddingSchema as ollamaEmbeddingSchema,
  ollamaErrorSchema,
  progressSchema,
  runningSchema,
  shownSchema,
  tagsSchema,
  versionSchema,
} from './ollama/answers.ts';
import { pullSchema, showSchema } from './ollama/routes.ts';
import * as ollama from './ollama/schema.ts';
import {
  chatAnswerSchema,
  chatChunkSchema,
  detokenizedSchema,
  embeddingAnswerSchema,
  errorSchema,
  infillAnswerSchema,
  modelListSchema,
  modelSchema,
  rerankAnswerSchema,
  textAnswerSchema,
  tokensSchema,
} from './openai/schemas/answers.ts';
import { chatRules, chatSchema } from './openai/schemas/chat.ts';
import { embeddingRules, embeddingSchema, rerankRules, rerankSchema } from './openai/schemas/embeddings.ts';
import { infillSchema } from './openai/schemas/infill.ts';
import { detokenizeSchema, textRules, textSchema, tokenizeSchema } from './openai/schemas/text.ts';
import { deletedSchema, inputItemsSchema, responseEventSchema, responseSchema } from './responses/answers.ts';
import { responsesRules, responsesSchema } from './responses/schema.ts';

interface Operation {
  readonly method: 'get' | 'post' | 'delete';
  readonly path: string;
  readonly summary: string;
  readonly description?: string;
  readonly body?: z.ZodType;
  /** Default JSON. */
  readonly bodyType?: string;
  readonly answer?: z.ZodType;
  /** Of a streamed answer's events. */
  readonly chunk?: z.ZodType;
  /** What they are streamed as. Default server-sent events. */
  readonly chunkType?: string;
  /** Where errors do not look as OpenAI's. */
  readonly error?: z.ZodType;
  readonly mediaType?: string;
  /** Whether a key is needed where there are any. */
  readonly open?: boolean;
  readonly pathParameter?: string;
}

const noOps = (names: readonly string[]) => `Accepted without effect: ${names.join(', ')}.`;
const refusedNames = (names: Readonly<Record<string, unknown>>) =>
  `Answered with 400 where they would change something: ${Object.keys(names).join(', ')}.`;
const unknownNote =
  'Other parameters are ignored and named in the header x-chairlift-warning. ' +
  'The header x-chairlift-timeout-ms sets a deadline for the whole request.';

const notesOf = ({ noOps: names, refused }: Pick<typeof chatRules, 'noOps' | 'refused'>) =>
  [noOps(names), refusedNames(refused), unknownNote].join(' ');
const low = 'The same at LOW priority, whatever the key.';

const chat = { method: 'post', body: chatSchema, answer: chatAnswerSchema, chunk: chatChunkSchema } as const;
const embeddings = { method: 'post', body: embeddingSchema, answer: embeddingAnswerSchema } as const;
const text = { method: 'post', body: textSchema, answer: textAnswerSchema, chunk: textAnswerSchema } as const;

const asOllama = { chunkType: 'application/x-ndjson', error: ollamaErrorSchema } as const;
const line = (schema: z.ZodType) => ({ ...asOllama, answer: schema, chunk: schema });

const ollamaOperations: readonly Operation[] = [
  {
    ...line(chatLineSchema),
    method: 'post',
    path: '/api/chat',
    summary: 'Answer a conversation, as Ollama',
    body: ollama.chatSchema,
  },
  {
    ...line(generateLineSchema),
    method: 'post',
    path: '/api/generate',
    summary: 'Answer a prompt, as Ollama',
    body: ollama.generateSchema,
  },
  {
    ...asOllama,
    method: 'post',
    path: '/api/embed',
    summary: 'Texts to vectors, as Ollama',
    body: ollama.embedSchema,
    answer: embeddedSchema,
  },
  {
    ...asOllama,
    method: 'post',
    path: '/api/embeddings',
    summary: 'A text to a vector, as Ollama did before',
    body: ollama.embeddingsSchema,
    answer: ollamaEmbeddingSchema,
  },
  { ...asOllama, method: 'get', path: '/api/tags', summary: 'List the models', answer: tagsSchema },
  { ...asOllama, method: 'get', path: '/api/ps', summary: 'List the loaded models', answer: runningSchema },
  {
    ...asOllama,
    method: 'post',
    path: '/api/show',
    summary: 'What a model is',
    body: showSchema,
    answer: shownSchema,
  },
  {
    ...asOllama,
    method: 'get',
    path: '/api/version',
    summary: 'Whose API this is',
    answer: versionSchema,
  },
  {
    ...line(progressSchema),
    method: 'post',
    path: '/api/pull',
    summary: 'Bring a model from the hub; needs an admin key',
    body: pullSchema,
  },
  {
    ...asOllama,
    method: 'delete',
    path: '/api/delete',
    summary: "Remove a model's files; needs an admin key",
    body: showSchema,
  },
];

const formSchema = uploadSchema.extend({
  file: z.string().meta({ format: 'binary', description: 'JSONL, one request a line.' }),
});

const batchOperations: readonly Operation[] = [
  {
    method: 'post',
    path: '/v1/files',
    summary: 'Upload the input of a batch',
    body: formSchema,
    bodyType: 'multipart/form-data',
    answer: fileSchema,
  },
  {
    method: 'get',
    path: '/v1/files',
    summary: "List the key's files; after, limit, order, purpose",
    answer: listSchema(fileSchema),
  },
  { method: 'get', path: '/v1/files/{id}', summary: 'One file', answer: fileSchema, pathParameter: 'id' },
  {
    method: 'get',
    path: '/v1/files/{id}/content',
    summary: 'What is in a file',
    mediaType: 'application/octet-stream',
    pathParameter: 'id',
  },
  {
    method: 'delete',
    path: '/v1/files/{id}',
    summary: 'Delete a file',
    answer: fileDeletedSchema,
    pathParameter: 'id',
  },
  {
    method: 'post',
    path: '/v1/batches',
    summary: 'Have the requests of a file answered when there is time',
    body: newBatchSchema,
    answer: batchSchema,
  },
  {
    method: 'get',
    path: '/v1/batches',
    summary: "List the key's batches; after, limit, order",
    answer: listSchema(batchSchema),
  },
  {
    method: 'get',
    path: '/v1/batches/{id}',
    summary: 'A batch, and how far it is',
    answer: batchSchema,
    pathParameter: 'id',
  },
  {
    method: 'post',
    path: '/v1/batches/{id}/cancel',
    summary: 'Call a batch off; what was done stays',
    answer: batchSchema,
    pathParameter: 'id',
  },
];

const operations: readonly Operation[] = [
  {
    ...chat,
    path: '/v1/chat/completions',
    summary: 'Answer a conversation',
    description: notesOf(chatRules),
  },
  { ...text, path: '/v1/completions', summary: 'Continue a text', description: notesOf(textRules) },
  {
    ...chat,
    path: '/v1/batch/chat/completions',
    summary: 'Answer a conversation, no hurry',
    description: low,
  },
  { ...text, path: '/v1/batch/completions', summary: 'Continue a text, no hurry', description: low },
  {
    ...embeddings,
    path: '/v1/embeddings',
    summary: 'Texts to vectors',
    description: notesOf(embeddingRules),
  },
  { ...embeddings, path: '/v1/batch/embeddings', summary: 'Texts to vectors, no hurry', description: low },
  {
    method: 'post',
    path: '/v1/rerank',
    summary: 'Documents by their nearness to a query, for models made for embeddings',
    description: notesOf(rerankRules),
    body: rerankSchema,
    answer: rerankAnswerSchema,
  },
  {
    method: 'post',
    path: '/infill',
    summary: 'Fill a gap in a text, as llama.cpp does',
    body: infillSchema,
    answer: infillAnswerSchema,
    chunk: infillAnswerSchema,
  },
  {
    method: 'post',
    path: '/v1/messages',
    summary: "Answer a conversation, in Anthropic's words",
    description: notesOf(messagesRules),
    body: messagesSchema,
    answer: messageAnswerSchema,
    chunk: messageEventSchema,
    error: anthropicErrorSchema,
  },
  {
    method: 'post',
    path: '/v1/messages/count_tokens',
    summary: 'How many tokens such a conversation is',
    body: countSchema,
    answer: tokenCountSchema,
    error: anthropicErrorSchema,
  },
  {
    method: 'post',
    path: '/v1/responses',
    summary: 'Answer a conversation, and keep it to go on with',
    description: notesOf(responsesRules),
    body: responsesSchema,
    answer: responseSchema,
    chunk: responseEventSchema,
  },
  {
    method: 'get',
    path: '/v1/responses/{id}',
    summary: 'A response that is kept, or still comes',
    answer: responseSchema,
    pathParameter: 'id',
  },
  {
    method: 'delete',
    path: '/v1/responses/{id}',
    summary: 'Delete a response',
    answer: deletedSchema,
    pathParameter: 'id',
  },
  {
    method: 'post',
    path: '/v1/responses/{id}/cancel',
    summary: 'Call off a response that is being streamed',
    answer: responseSchema,
    pathParameter: 'id',
  },
  {
    method: 'get',
    path: '/v1/responses/{id}/input_items',
    summary: 'What was given for a response, from the beginning of its conversation; after, limit, order',
    answer: inputItemsSchema,
    pathParameter: 'id',
  },
  ...batchOperations,
  {
    method: 'get',
    path: '/v1/models',
    summary: 'List the models',
    description: 'Where the header anthropic-version is given, as Anthropic lists them.',
    answer: modelListSchema,
  },
  { method: 'get', path: '/v1/models/{id}', summary: 'One model', answer: modelSchema, pathParameter: 'id' },
  {
    method: 'post',
    path: '/tokenize',
    summary: 'Text or messages to token ids',
    body: tokenizeSchema,
    answer: tokensSchema,
  },
  {
    method: 'post',
    path: '/detokenize',
    summary: 'Token ids to text',
    body: detokenizeSchema,
    answer: detokenizedSchema,
  },
  {
    method: 'post',
    path: '/apply-template',
    summary: 'Messages to the prompt that the model sees',
    body: chatSchema,
    answer: detokenizedSchema,
  },
  { method: 'get', path: '/whoami', summary: 'What the server knows of who asks' },
  {
    method: 'get',
    path: '/requests',
    summary: 'The last 500 requests, the newest first; an admin sees all, another key its own; model',
  },
  { method: 'get', path: '/requests/{id}', summary: 'The life of a request', pathParameter: 'id' },
  { method: 'get', path: '/health', summary: 'That the server lives, and how its engines are', open: true },
  { method: 'get', path: '/ready', summary: 'Whether the default model answers', open: true },
  { method: 'get', path: '/metrics', summary: 'Numbers for Prometheus', open: true, mediaType: 'text/plain' },
  { method: 'get', path: '/admin/keys', summary: 'List the keys' },
  { method: 'post', path: '/admin/keys', summary: 'Make a key; it is shown this once', body: newKeySchema },
  { method: 'delete', path: '/admin/keys/{id}', summary: 'Revoke a key, by name or id', pathParameter: 'id' },
  { method: 'get', path: '/admin/models', summary: 'Models with their state' },
  { method: 'post', path: '/admin/models/load', summary: 'Load a model', body: modelNameSchema },
  { method: 'post', path: '/admin/models/unload', summary: 'Unload a model', body: modelNameSchema },
  { method: 'get', path: '/admin/fleet', summary: 'Nodes of the fleet, their models and load' },
  {
    method: 'post',
    path: '/admin/fleet/place',
    summary: 'Say on how many workers a model is loaded',
    body: placementSchema,
  },
  {
    method: 'post',
    path: '/admin/fleet/drain',
    summary: 'Have a worker take nothing new',
    body: drainSchema,
  },
  { method: 'get', path: '/admin/stats', summary: 'What every engine does now' },
  { method: 'get', path: '/admin/usage', summary: 'Usage by key and day; from and to are days' },
  {
    method: 'get',
    path: '/admin/events',
    summary: 'Steps and finished requests as they happen',
    mediaType: 'text/event-stream',
  },
  {
    method: 'post',
    path: '/admin/bench',
    summary: 'Put load on this server, one at a time; leaving ends it',
    body: benchSchema,
    mediaType: 'text/event-stream',
  },
  {
    method: 'get',
    path: '/live',
    summary: 'What the engines do, four times a second; needs an admin key',
    mediaType: 'text/event-stream',
  },
  ...ollamaOperations,
];

export function openApiDocument(version: string): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const operation of operations) {
    paths[operation.path] = { ...paths[operation.path], [operation.method]: describe(operation) };
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Chairlift', version, description: 'A self-hosted server for language models.' },
    components: {
      securitySchemes: {
        key: { type: 'http', scheme: 'bearer' },
        header: { type: 'apiKey', in: 'header', name: 'x-api-key' },
      },
    },
    paths,
  };
}

function describe(operation: Operation): object {
  const { summary, description, body, bodyType, error = errorSchema, open, pathParameter } = operation;
  return {
    summary,
    ...(description === undefined ? {} : { description }),
    ...(open ? {} : { security: [{ key: [] }, { header: [] }] }),
    ...(pathParameter === undefined
      ? {}
      : { parameters: [{ name: pathParameter, in: 'path', required: true, schema: { type: 'string' } }] }),
    ...(body === undefined
      ? {}
      : { requestBody: { required: true, content: content(body, 'input', bodyType) } }),
    responses: {
      200: { description: 'The answer', ...answerContent(operation) },
      default: { description: 'What is wrong', content: content(error, 'output') },
    },
  };
}

function answerContent({ answer, chunk, mediaType, chunkType = 'text/event-stream' }: Operation): object {
  if (mediaType !== undefined) return { content: { [mediaType]: { schema: { type: 'string' } } } };
  if (answer === undefined) return {};
  const events = chunk === undefined ? {} : { [chunkType]: { schema: schemaOf(chunk, 'output') } };
  return { content: { ...content(answer, 'output'), ...events } };
}

function content(schema: z.ZodType, io: 'input' | 'output', type = 'application/json'): object {
  return { [type]: { schema: schemaOf(schema, io) } };
}

function schemaOf(schema: z.ZodType, io: 'input' | 'output'): object {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any' });
  return rest;
}
