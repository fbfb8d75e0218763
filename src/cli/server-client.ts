// How commands speak to a running server: its address, its key, and errors that say what to do.

import type { Command } from 'commander';
import { UsageError } from './usage-error.ts';

export interface ServerFlags {
  readonly url: string;
  readonly key?: string;
}

export const DEFAULT_URL = 'http://127.0.0.1:8000';

export function addServerOptions(command: Command): Command {
  return command
    .option('--url <url>', 'where the server is', DEFAULT_URL)
    .option('--key <key>', 'API key, where the server asks for one');
}

interface Call {
  readonly body?: unknown;
  readonly signal?: AbortSignal;
}

/** The answer, whatever its status; a server that is not there is an error. */
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

/** What a refusal says, in the words of the server where it has some. */
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
    // Not from Chairlift: the start of the text has to do.
  }
  return text.slice(0, 200).trim() || 'without a word';
}

function addressOf(url: string, path: string): string {
  const isHttp = URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
  if (!isHttp) throw new UsageError(`--url: ${url} is no address; give one such as ${DEFAULT_URL}`);
  return `${url.replace(/\/+$/, '')}${path}`;
}
