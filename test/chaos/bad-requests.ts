// Requests that cannot be served, and how each must be refused.

import { FIRST_MODEL } from './catalogue.ts';
import type { Ask } from './exchange.ts';

export interface BadRequest {
  readonly name: string;
  readonly ask: Ask;
  readonly statuses: readonly number[];
  /** Whether the client's own key goes with it. */
  readonly keyed: boolean;
  /** The server may close the connection while the client still sends. */
  readonly mayBreak?: boolean;
}

const CHAT = '/v1/chat/completions';
const TEXT = '/v1/completions';
const messages = [{ role: 'user', content: 'Hello' }];

function post(name: string, path: string, body: unknown, statuses: readonly number[] = [400]): BadRequest {
  return { name, ask: { method: 'POST', path, body: JSON.stringify(body) }, statuses, keyed: true };
}

function raw(name: string, ask: Ask, statuses: readonly number[], keyed = true): BadRequest {
  return { name, ask, statuses, keyed };
}

/** In the middle of a body, as deep as that. */
const nested = `${'['.repeat(20_000)}${']'.repeat(20_000)}`;

export const badRequests: readonly BadRequest[] = [
  raw('no JSON', { method: 'POST', path: CHAT, body: '{"messages": [' }, [400]),
  raw('an empty body', { method: 'POST', path: CHAT, body: '' }, [400]),
  raw('bytes', { method: 'POST', path: CHAT, body: Buffer.from([0, 255, 254, 1, 2, 3]) }, [400]),
  raw(
    'plain text',
    { method: 'POST', path: TEXT, headers: { 'content-type': 'text/plain' }, body: 'Hi' },
    [400],
  ),
  raw(
    'a form',
    {
      method: 'POST',
      path: TEXT,
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: 'prompt=Hi',
    },
    [400],
  ),
  raw('deep nesting', { method: 'POST', path: CHAT, body: `{"messages": ${nested}}` }, [400]),
  raw('__proto__', { method: 'POST', path: CHAT, body: '{"__proto__": {"a": 1}, "messages": []}' }, [400]),
  post('a list', CHAT, []),
  post('no messages', CHAT, { model: FIRST_MODEL }),
  post('a wrong role', CHAT, { messages: [{ role: 'wizard', content: 'Hi' }] }),
  post('a warm temperature', CHAT, { messages, temperature: 'warm' }),
  post('too many answers', CHAT, { messages, n: 10_000 }),
  post('no tokens', CHAT, { messages, max_tokens: 0 }),
  post('a gap that nobody can fill', TEXT, { prompt: 'Hi', suffix: 'bye' }),
  post('ids that are none', TEXT, { prompt: [1, 2, 99_999_999] }),
  post('an empty prompt', TEXT, { prompt: '', model: FIRST_MODEL }),
  post('too long a prompt', TEXT, { prompt: 'word '.repeat(9000) }),
  post('too many values', CHAT, { messages: Array(70_000).fill(0) }),
  post('tools', CHAT, { messages, tools: [{ type: 'function' }] }),
  post('an unknown model', CHAT, { messages, model: 'nobody' }, [404]),
  // Weights become infinite or zero; whether that can be sampled from or not, it is no fault of the server.
  post('a tiny penalty', TEXT, { prompt: 'Hi, hi', repetition_penalty: 1e-300, max_tokens: 4 }, [200, 400]),
  post('detokenize what is no id', '/detokenize', { tokens: [1, 99_999_999] }),
  post('tokenize nothing', '/tokenize', {}),
  post('unload what is not there', '/admin/models/unload', { model: 'nobody' }, [403, 404]),
  raw('an unknown route', { method: 'GET', path: '/v1/nowhere' }, [404]),
  raw('a wrong method', { method: 'PUT', path: CHAT, body: '{}' }, [404, 405]),
  raw('no key', { method: 'POST', path: CHAT, body: JSON.stringify({ messages }) }, [401], false),
  raw('a made-up key', { method: 'GET', path: '/v1/models', key: `cl_${'x'.repeat(40)}` }, [401], false),
  raw('a long path', { method: 'GET', path: `/v1/models/${'a/'.repeat(2000)}` }, [404, 414]),
  raw(
    'a bad deadline',
    {
      method: 'POST',
      path: CHAT,
      headers: { 'x-chairlift-timeout-ms': '-5' },
      body: JSON.stringify({ messages }),
    },
    [400],
  ),
];

/** Megabytes, so now and then only. Built when it is needed. */
export const hugeRequests: readonly (() => BadRequest)[] = [
  () => ({
    ...post('a body beyond the limit', TEXT, { prompt: 'a'.repeat(9 * 2 ** 20) }, [413]),
    mayBreak: true,
  }),
  () => post('a prompt of megabytes', TEXT, { prompt: 'word '.repeat(500_000), max_tokens: 4 }),
  () => post('very many ids', TEXT, { prompt: Array(1_000_000).fill(7), max_tokens: 4 }),
  () => post('many messages', CHAT, { messages: Array(60_000).fill(messages[0]) }),
];
