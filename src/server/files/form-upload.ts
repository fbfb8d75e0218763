// Receives a file in a form (multipart/form-data) and stores it while it arrives. Fields may follow the file, so that they
// are checked in the end; a file that is refused then is deleted.

import type { Readable } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import { Busboy, type BusboyFileStream, type BusboyHeaders, type BusboyInstance } from '@fastify/busboy';
import type { FastifyRequest } from 'fastify';
import type { FileWriter } from '../../store/file-writer.ts';
import { ApiError, badRequest, ClientLeft } from '../http/errors.ts';

const MAX_FIELDS = 16;
const MAX_FIELD_BYTES = 1024;
const LONGEST_NAME = 255;
/** The most bytes of a form without its file. */
const FORM_BYTES = 64 * 1024;

/** The parser finishes a complete form in one turn; some malformed ones it never finishes. */
const TURNS_TO_FINISH = 8;

interface FormTarget {
  readonly maxBytes: number;
  begin(name: string): Promise<FileWriter>;
}

interface ReceivedForm {
  readonly writer: FileWriter;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** The file is written, but not marked as complete: its fields must be checked first. */
export async function receiveForm(request: FastifyRequest, target: FormTarget): Promise<ReceivedForm> {
  const body = request.body as Readable;
  const announced = Number(request.headers['content-length'] ?? 0);
  if (announced > target.maxBytes + FORM_BYTES) {
    body.resume();
    throw tooLarge(target.maxBytes);
  }
  const parser = parserFor(request);
  const fields: Record<string, unknown> = {};
  let storing: Promise<FileWriter> | undefined;
  const ended = new Promise<void>((resolve, reject) => {
    parser.once('finish', resolve);
    parser.on('error', () => reject(malformed()));
    body.once('end', async () => {
      await storing?.catch(() => {});
      for (let left = TURNS_TO_FINISH; left > 0; left--) await turn();
      reject(malformed());
    });
    body.on('error', reject);
    body.once('close', () => {
      if (!body.readableEnded) reject(new ClientLeft());
    });
    parser.on('fieldsLimit', () => reject(badRequest('body', `has more than ${MAX_FIELDS} fields`)));
    parser.on('field', (name, value, _nameCut, cut) => {
      if (cut) reject(badRequest(name, `is longer than ${MAX_FIELD_BYTES} bytes`));
      else setField(fields, name, value);
    });
    parser.on('file', (name, stream, fileName) => {
      // Errors reach the loop that reads the stream. Where that loop ends early, the stream's own abort error must not hide
      // why.
      stream.on('error', () => {});
      if (name !== 'file' || storing !== undefined) {
        stream.resume();
        reject(badRequest(name, 'is a file too many; send one, as file'));
        return;
      }
      storing = store(stream, fileName, target);
      storing.catch(reject);
      // Ends the loop that waits for the rest of a file that will not arrive.
      ended.catch((error: Error) => stream.destroy(error));
    });
  });
  body.pipe(parser);
  try {
    await ended;
    if (storing === undefined) throw badRequest('file', 'is missing', 'missing_required_parameter');
    return { writer: await storing, fields };
  } catch (error) {
    // The rest of the body is discarded, so that the client can read the response.
    body.unpipe(parser);
    body.resume();
    await storing?.then((writer) => writer.discard()).catch(() => {});
    throw error;
  }
}

function parserFor({ headers }: FastifyRequest): BusboyInstance {
  try {
    return new Busboy({
      headers: headers as BusboyHeaders,
      limits: { fields: MAX_FIELDS, fieldSize: MAX_FIELD_BYTES, fieldNameSize: 100, headerPairs: 32 },
    });
  } catch {
    throw badRequest('content-type', 'must be multipart/form-data with a boundary');
  }
}

function setField(fields: Record<string, unknown>, name: string, value: string): void {
  const [, outer, inner] = /^(\w+)\[(\w+)\]$/.exec(name) ?? [];
  if (outer === undefined || inner === undefined) fields[name] = value;
  else fields[outer] = { ...(fields[outer] as object | undefined), [inner]: value };
}

async function store(
  stream: BusboyFileStream,
  name: string | undefined,
  { maxBytes, begin }: FormTarget,
): Promise<FileWriter> {
  const writer = await begin(plainName(name));
  try {
    for await (const piece of stream as AsyncIterable<Buffer>) {
      if (writer.bytes + piece.length > maxBytes) throw tooLarge(maxBytes);
      if ((await writer.write(piece)) === 'no-room') throw noRoom();
    }
    if (writer.bytes === 0) throw badRequest('file', 'is empty');
    if ((await writer.flush()) === 'no-room') throw noRoom();
    return writer;
  } catch (error) {
    await writer.discard().catch(() => {});
    throw error;
  }
}

function plainName(given: string | undefined): string {
  const name = (given ?? '').replace(/\p{Cc}/gu, '').slice(0, LONGEST_NAME);
  return name === '' ? 'file' : name;
}

function malformed(): ApiError {
  return badRequest('body', 'is no whole form of multipart/form-data');
}

const closing = { connection: 'close' };

function tooLarge(maxBytes: number): ApiError {
  const message = `file: is larger than ${maxBytes} bytes, the most that this server takes`;
  return new ApiError(413, message, { param: 'file', code: 'file_too_large', headers: closing });
}

export function noRoom(): ApiError {
  const message = 'file: the key has no room left for it; delete files that are not needed any more';
  return new ApiError(413, message, { param: 'file', code: 'files_limit_exceeded', headers: closing });
}
