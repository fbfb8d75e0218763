// How commands call a running server: its address, its key, and errors that say what to do.

import type { Command } from 'commander';
import { processInputs } from '../config.ts';
import { runningServers } from './server-records.ts';
import { UsageError } from './usage-error.ts';

export interface ServerFlags {
  readonly url: string;
  readonly key?: string;
}

export const DEFAULT_URL = 'http://127.0.0.1:8000';

export function addServerOptions(command: Command): Command {
  return command
    .option('--url <url>', URL_MEANING)
    .option('--key <key>', 'API key, where the server asks for one')
    .hook('preAction', () => {
      if (command.opts().url === undefined) command.setOptionValue('url', usualUrl());
    });
}

export const URL_MEANING = `where the server is; where unset, the one that runs on this machine, or ${DEFAULT_URL}`;

/** Of the only server of this user on this machine; the usual one where there is none, or several. */
export function usualUrl(): string {
  const [server, ...others] = runningServers(processInputs({}).home);
  if (server === undefined || others.length > 0) return DEFAULT_URL;
  return server.url.replace(/(?<=^https?:\/\/)(0\.0\.0\.0|\[::\])(?=:)/, '127.0.0.1');
}

interface Call {
  readonly body?: unknown;
  readonly signal?: AbortSignal;
}

/** Throws only where there is no server. */
export async function callServer(
  { url, key }: ServerFlags,
  path: string,
  call: Call = {},
): Promise<Response> {
  const { body, signal } = call;
  const address = addressOf(url, path);
  try {
    return await fetch(address, {
      headers: {
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new UsageError(`no server answers at ${url}; start one with 'chairlift serve', or give its --url`);
  }
}

/** The server's own words, where it has some. */
export async function refusalOf(response: Response): Promise<UsageError> {
  const text = await response.text();
  const advice = response.status === 401 ? '; give a key with --key' : '';
  return new UsageError(`the server refused (${response.status}): ${messageIn(text)}${advice}`);
}

export function messageIn(text: string): string {
  try {
    const { error } = JSON.parse(text) as { error?: { message?: unknown } };
    if (typeof error?.message === 'string') return error.message;
  } catch {
    // Not from Chairlift: shows the start of the text.
  }
  return text.slice(0, 200).trim() || 'without a word';
}

function addressOf(url: string, path: string): string {
  const isHttp = URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
  if (!isHttp) throw new UsageError(`--url: ${url} is no address; give one such as ${DEFAULT_URL}`);
  return `${url.replace(/\/+$/, '')}${path}`;
}

export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<string, void, void> {
  let rest = '';
  let data: string[] = [];
  const decoder = new TextDecoder();
  for await (const bytes of body) {
    // A trailing carriage return may be half of a line break.
    const lines = (rest + decoder.decode(bytes, { stream: true })).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line.startsWith('data:')) data.push(line.slice('data:'.length).replace(/^ /, ''));
      if (line !== '' || data.length === 0) continue;
      yield data.join('\n');
      data = [];
    }
  }
}
