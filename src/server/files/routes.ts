// /v1/files: uploads, lists, reads and deletes files. Each key sees only its own.

import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { FileStore } from '../../store/file-store.ts';
import type { ServerContext } from '../context.ts';
import { ApiError, fromStore, warnOfUnknown } from '../http/errors.ts';
import { listOf, listSchema } from '../http/list-page.ts';
import { parseBody } from '../http/parse-body.ts';
import { callerOf } from '../request/auth.ts';
import { idOf, type Route } from '../route.ts';
import {
  expiryOf,
  fileDeletedSchema,
  fileObject,
  filePageRules,
  fileSchema,
  INPUT_PURPOSE,
  LARGEST_FILE_PAGE,
  uploadRules,
  uploadSchema,
} from './file-object.ts';
import { receiveForm } from './form-upload.ts';

const explained = <Result>(action: () => Result | Promise<Result>) => fromStore('files', action);

const formSchema = uploadSchema.extend({
  file: z.string().meta({ format: 'binary', description: 'JSONL, one request a line; or a text.' }),
});

export function fileRoutes(context: ServerContext): readonly Route[] {
  return [
    {
      method: 'POST',
      url: '/v1/files',
      access: 'key',
      summary: 'Upload the input of a batch, or a text for conversations',
      body: formSchema,
      bodyType: 'multipart/form-data',
      answer: fileSchema,
      config: { takesForm: true },
      handler: (request, reply) => upload(context, request, reply),
    },
    {
      method: 'GET',
      url: '/v1/files',
      access: 'key',
      summary: "List the key's files; after, limit, order, purpose",
      answer: listSchema(fileSchema),
      handler: (request) => list(context, request),
    },
    {
      method: 'GET',
      url: '/v1/files/:id',
      access: 'key',
      summary: 'One file',
      answer: fileSchema,
      handler: async (request) => fileObject(await find(context, request)),
    },
    {
      method: 'GET',
      url: '/v1/files/:id/content',
      access: 'key',
      summary: 'What is in a file',
      mediaType: 'application/octet-stream',
      handler: (request, reply) => sendContent(context, request, reply),
    },
    {
      method: 'DELETE',
      url: '/v1/files/:id',
      access: 'key',
      summary: 'Delete a file',
      answer: fileDeletedSchema,
      handler: (request) => remove(context, request),
    },
  ];
}

async function list(context: ServerContext, request: FastifyRequest): Promise<object> {
  const { body: query } = parseBody(filePageRules, request.query);
  const { limit = LARGEST_FILE_PAGE, order = 'desc', after, purpose } = query;
  const { keyId } = callerOf(request);
  const asked = { limit, order, after, purpose };
  return listOf(await explained(() => filesOf(context).list(keyId, asked)), fileObject);
}

async function sendContent(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { id, name, bytes } = await find(context, request);
  return reply
    .headers({
      'content-type': 'application/octet-stream',
      'content-length': bytes,
      'content-disposition': `attachment; filename*=UTF-8''${encodeURIComponent(name)}`,
      'x-content-type-options': 'nosniff',
    })
    .send(Readable.from(filesOf(context).chunks(id), { objectMode: false, highWaterMark: 1 }));
}

async function remove(context: ServerContext, request: FastifyRequest): Promise<object> {
  const id = idOf(request);
  const { keyId } = callerOf(request);
  if (!(await explained(() => filesOf(context).remove(keyId, id)))) throw fileNotFound(id, 'id');
  return { id, object: 'file', deleted: true };
}

export function filesOf({ files }: ServerContext): FileStore {
  if (files !== undefined) return files;
  throw new ApiError(501, 'this server keeps no files', { code: 'no_file_store' });
}

export function fileNotFound(id: string, param: string): ApiError {
  const message = `there is no file '${id.slice(0, 128)}'`;
  return new ApiError(404, message, { param, code: 'file_not_found' });
}

/** The form reaches its route as a stream: files are larger than what is held in memory. */
export function acceptForms(app: FastifyInstance): void {
  app.addContentTypeParser('multipart/form-data', (_request, payload, done) => done(null, payload));
}

export function formNeeded(): ApiError {
  const message = 'send the file as a form, with the header content-type: multipart/form-data';
  return new ApiError(415, message, { code: 'unsupported_media_type' });
}

async function upload(context: ServerContext, request: FastifyRequest, reply: FastifyReply): Promise<object> {
  const { file, unknown } = await explained(() => storeUpload(context, request));
  warnOfUnknown(reply, unknown);
  return file;
}

async function storeUpload(
  context: ServerContext,
  request: FastifyRequest,
): Promise<{ file: object; unknown: readonly string[] }> {
  const { maxFileBytes: maxBytes, maxKeyFileBytes: maxKeyBytes, keepFilesMs } = context.settings;
  const { keyId } = callerOf(request);
  const files = filesOf(context);
  if (!(request.body instanceof Readable)) throw formNeeded();
  const nowMs = await files.nowMs();
  const begin = (name: string) =>
    files.begin(keyId, { purpose: INPUT_PURPOSE, name, expiresMs: undefined, maxKeyBytes }, nowMs);
  const { writer, fields } = await receiveForm(request, { maxBytes, begin });
  try {
    const { body, unknown } = parseBody(uploadRules, fields);
    await writer.complete(body.purpose, expiryOf(nowMs, body.expires_after?.seconds, keepFilesMs));
    const file = await files.find(keyId, writer.id);
    if (file === undefined) throw fileNotFound(writer.id, 'file');
    return { file: fileObject(file), unknown };
  } catch (error) {
    await writer.discard().catch(() => {});
    throw error;
  }
}

async function find(context: ServerContext, request: FastifyRequest) {
  const id = idOf(request);
  const { keyId } = callerOf(request);
  const file = await explained(() => filesOf(context).find(keyId, id));
  if (file === undefined) throw fileNotFound(id, 'id');
  return file;
}
