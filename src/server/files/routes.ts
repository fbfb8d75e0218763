// /v1/files: takes files, lists, gives and deletes them. Each key has its own, and sees no other.

import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { FileStore } from '../../store/file-store.ts';
import type { ServerContext } from '../context.ts';
import { ApiError } from '../http/errors.ts';
import { listOf } from '../http/list-page.ts';
import { parseBody, unknownWarning } from '../http/parse-body.ts';
import { warn } from '../http/warn.ts';
import { type Caller, isForeignPage } from '../request/auth.ts';
import { fromStore } from '../request/from-store.ts';
import {
  expiryOf,
  fileObject,
  filePageRules,
  INPUT_PURPOSE,
  LARGEST_FILE_PAGE,
  uploadRules,
} from './file-object.ts';
import { receiveForm } from './form-upload.ts';

type ById = { Params: { id: string } };

const explained = <Result>(action: () => Result | Promise<Result>) => fromStore('files', action);

export function fileRoutes(app: FastifyInstance, context: ServerContext): void {
  acceptForms(app);
  app.post('/v1/files', { config: { takesForm: true } }, async (request, reply) => {
    refuseForeignPage(context, request);
    const { file, unknown } = await explained(() => upload(context, request));
    warn(reply, unknown.length > 0 ? [unknownWarning(unknown)] : []);
    return file;
  });
  app.get('/v1/files', async (request) => {
    const { body: query } = parseBody(filePageRules, request.query);
    const { limit = LARGEST_FILE_PAGE, order = 'desc', after, purpose } = query;
    const { keyId } = request.caller as Caller;
    const asked = { limit, order, after, purpose };
    return listOf(await explained(() => filesOf(context).list(keyId, asked)), fileObject);
  });
  app.get<ById>('/v1/files/:id', async (request) => fileObject(await find(context, request)));
  app.get<ById>('/v1/files/:id/content', async (request, reply) => {
    const { id, name, bytes } = await find(context, request);
    return reply
      .headers({
        'content-type': 'application/octet-stream',
        'content-length': bytes,
        'content-disposition': `attachment; filename*=UTF-8''${encodeURIComponent(name)}`,
        'x-content-type-options': 'nosniff',
      })
      .send(Readable.from(filesOf(context).chunks(id), { objectMode: false, highWaterMark: 1 }));
  });
  app.delete<ById>('/v1/files/:id', async (request) => {
    const { id } = request.params;
    const { keyId } = request.caller as Caller;
    if (!(await explained(() => filesOf(context).remove(keyId, id)))) throw fileNotFound(id, 'id');
    return { id, object: 'file', deleted: true };
  });
}

export function filesOf({ files }: ServerContext): FileStore {
  if (files !== undefined) return files;
  throw new ApiError(501, 'this server keeps no files', { code: 'no_file_store' });
}

export function fileNotFound(id: string, param: string): ApiError {
  const message = `there is no file '${id.slice(0, 128)}'`;
  return new ApiError(404, message, { param, code: 'file_not_found' });
}

/** Forms reach the routes that take them; to others they are what they always were. */
function acceptForms(app: FastifyInstance): void {
  app.addContentTypeParser('multipart/form-data', (request, payload, done) => {
    if (request.routeOptions.config.takesForm === true) done(null, payload);
    else
      done(
        new ApiError(415, 'send the body as JSON, with the header content-type: application/json', {
          code: 'unsupported_media_type',
        }),
      );
  });
}

/** Browsers post forms for any page without asking first, as they do not for JSON. */
function refuseForeignPage({ settings }: ServerContext, request: FastifyRequest): void {
  if (!isForeignPage(request)) return;
  const { corsOrigins } = settings;
  if (corsOrigins.includes('*') || corsOrigins.includes(String(request.headers.origin).toLowerCase())) return;
  throw new ApiError(403, 'pages of other sites may not upload here', { code: 'origin_not_allowed' });
}

async function upload(
  context: ServerContext,
  request: FastifyRequest,
): Promise<{ file: object; unknown: readonly string[] }> {
  const { maxFileBytes: maxBytes, maxKeyFileBytes: maxKeyBytes, keepFilesMs } = context.settings;
  const { keyId } = request.caller as Caller;
  const files = filesOf(context);
  if (!(request.body instanceof Readable)) {
    const message = 'send the file as a form, with the header content-type: multipart/form-data';
    throw new ApiError(415, message, { code: 'unsupported_media_type' });
  }
  const nowMs = Date.now();
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

async function find(context: ServerContext, request: FastifyRequest<ById>) {
  const { id } = request.params;
  const { keyId } = request.caller as Caller;
  const file = await explained(() => filesOf(context).find(keyId, id));
  if (file === undefined) throw fileNotFound(id, 'id');
  return file;
}
