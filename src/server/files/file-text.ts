// Files in a conversation: what a part names or holds becomes text of its message. Only texts can be read.

import type { ServerContext } from '../context.ts';
import { badRequest, fromStore } from '../http/errors.ts';
import type { Caller } from '../request/auth.ts';
import { conversationPurposes } from './file-object.ts';
import { fileNotFound, filesOf } from './routes.ts';

/** As OpenAI's clients give one. */
export interface GivenFile {
  readonly file_id?: string | null | undefined;
  readonly file_data?: string | null | undefined;
  readonly file_url?: string | null | undefined;
  readonly filename?: string | null | undefined;
}

export interface FileReader {
  readonly context: ServerContext;
  readonly caller: Pick<Caller, 'keyId'>;
}

/** `where`: what the client calls it. */
export async function fileText(reader: FileReader, given: GivenFile, where: string): Promise<string> {
  const { file_id: id, file_data: data, file_url: url } = given;
  if (url != null) throw badRequest(`${where}.file_url`, 'this server fetches nothing; send the file itself');
  if ((id == null) === (data == null)) throw badRequest(where, 'must have either file_id or file_data');
  const { name, bytes } =
    id == null
      ? { name: given.filename ?? undefined, bytes: decoded(data as string, `${where}.file_data`) }
      : await storedFile(reader, id, `${where}.file_id`, reader.context.settings.bodyLimitBytes);
  return element('document', { title: name }, textOf(bytes, where));
}

/** In the form in which models have seen sources: an element with attributes. */
export function element(
  name: string,
  attributes: Readonly<Record<string, string | null | undefined>>,
  text: string,
): string {
  const given = Object.entries(attributes).flatMap(([key, value]) =>
    value == null ? [] : [` ${key}=${JSON.stringify(value)}`],
  );
  return `<${name}${given.join('')}>\n${text}\n</${name}>`;
}

/** A file of this key's. */
export async function storedFile({ context, caller }: FileReader, id: string, where: string, most: number) {
  const files = filesOf(context);
  const file = await fromStore('files', () => files.find(caller.keyId, id));
  if (file === undefined) throw fileNotFound(id, where);
  if (!conversationPurposes.some((one) => one === file.purpose)) {
    throw badRequest(where, `must be a file of the purpose ${conversationPurposes.join(' or ')}`);
  }
  if (file.bytes > most) throw badRequest(where, `has ${file.bytes} bytes; ${most} are possible`);
  const chunks: Buffer[] = [];
  await fromStore('files', async () => {
    for await (const chunk of files.chunks(id)) chunks.push(chunk);
  });
  return { name: file.name, bytes: Buffer.concat(chunks) };
}

/** A data URL, or base64 alone. */
function decoded(data: string, where: string): Buffer {
  const url = /^data:[^,]*?(;base64)?,/s.exec(data);
  const body = url === null ? data : data.slice(url[0].length);
  if (url !== null && url[1] === undefined) return Buffer.from(unescaped(body, where));
  if (!/^[A-Za-z0-9+/_-]*=*\s*$/.test(body)) throw badRequest(where, 'must be base64, or a data URL');
  return Buffer.from(body, 'base64');
}

function unescaped(text: string, where: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw badRequest(where, 'is no data URL');
  }
}

function textOf(bytes: Buffer, where: string): string {
  if (bytes.subarray(0, 5).toString('latin1') === '%PDF-')
    throw badRequest(where, 'is a PDF, which cannot be read here; send its text');
  const text = utf8(bytes);
  if (text === undefined || text.includes('\0'))
    throw badRequest(where, 'is no text in UTF-8, and only texts can be read');
  return text;
}

function utf8(bytes: Buffer): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
