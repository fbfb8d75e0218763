// The server killed and told to stop, in turns, while clients stream, and started again each time with the same database:
// clients that come back have what they would have had, and keys pay for it once.

import { createServer } from 'node:net';
import { expect, it } from 'vitest';
import { openDatabase } from '../../src/store/open-database.ts';
import { reportUsage } from '../../src/store/usage-report.ts';
import { type ResumedAsk, resumedStream } from '../support/resuming-client.ts';
import { type ServerProcess, serverHome, waitUntil } from '../support/server-process.ts';
import { thorough } from '../support/thorough.ts';

const STREAMS = thorough ? 64 : 8;
const STOPS = thorough ? 12 : 4;
/** Events of all streams between two stops: enough that each life answers, few enough that none ends all. */
const EVENTS_A_LIFE = 20 * STREAMS;

const home = serverHome();
/** A second try has keys of its own. */
let keys = 0;

const schema = {
  type: 'object',
  properties: {
    name: { type: 'string' },
    age: { type: 'integer' },
    likes: { type: 'array', items: { type: 'string' } },
  },
  required: ['name', 'age', 'likes'],
};
const messages = [{ role: 'user', content: 'Tell me a story about a fox named Milo in the forest.' }];
const usage = { stream_options: { include_usage: true } };

/** One after the other, of every kind that comes in streams with ids; each has its own seed. */
function askOf(at: number, key: string): ResumedAsk {
  const sampled = { max_tokens: 250, ignore_eos: true, temperature: 1, seed: 1000 + at };
  const chat = '/v1/chat/completions';
  const kinds: readonly (readonly [path: string, body: object])[] = [
    [chat, { messages, ...sampled, ...usage }],
    ['/v1/completions', { prompt: 'Once upon a time', ...sampled, ...usage }],
    [chat, { messages, ...sampled, n: 2, max_tokens: 120, ...usage }],
    ['/v1/completions', { prompt: 'The fox', ...sampled, logprobs: 2, max_tokens: 120, ...usage }],
    ['/v1/messages', { messages, max_tokens: 250, temperature: 0 }],
    [chat, { messages, ...sampled, frequency_penalty: 0.5, dry_multiplier: 0.8, min_p: 0.02, ...usage }],
    [
      chat,
      {
        messages,
        max_tokens: 200,
        temperature: 1,
        seed: at,
        response_format: { type: 'json_schema', json_schema: { name: 's', schema } },
        ...usage,
      },
    ],
    ['/v1/completions', { prompt: 'A bear', ...sampled, mirostat: 2, max_tokens: 200, ...usage }],
  ];
  const [path, body] = kinds[at % kinds.length] as (typeof kinds)[number];
  return { path, body, key, id: `stream-${at}` };
}

const aside = new Set(['id', 'created', 'timings', 'cached_tokens', 'completion_tokens_details']);

/** Without what may differ from one time to the next: ids, times, and how much was in the cache or drafted. */
function comparable(events: readonly unknown[]): string[] {
  return events.map((event) =>
    JSON.stringify(event, (name, value: unknown) => {
      if (aside.has(name)) return undefined;
      if (name !== 'usage' || value === null) return value;
      const { prompt_tokens, completion_tokens, output_tokens } = value as Record<string, unknown>;
      return { prompt_tokens, completion_tokens, output_tokens };
    }),
  );
}

/** Events of several choices mix by chance: each choice has its own. */
function firstDifference(events: readonly unknown[], right: readonly unknown[]): string | undefined {
  const choiceOf = (text: string) => Number(/"index":(\d+)/.exec(text)?.[1] ?? -1);
  for (const choice of [-1, 0, 1]) {
    const [got, wanted] = [events, right].map((some) =>
      comparable(some).filter((text) => choiceOf(text) === choice),
    ) as [string[], string[]];
    const at = wanted.findIndex((text, place) => got[place] !== text);
    if (at !== -1)
      return `event ${at} of ${wanted.length} of choice ${choice} is ${got[at]} and not ${wanted[at]}`;
    if (got.length > wanted.length)
      return `${got.length} events of choice ${choice}, and not ${wanted.length}`;
  }
  return undefined;
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as { port: number };
      probe.close(() => resolve(port));
    });
  });
}

async function charged(): Promise<
  ReadonlyMap<string, { requests: number; prompt: number; completion: number }>
> {
  const database = await openDatabase(home.database);
  const rows = await reportUsage(database, {});
  await database.close();
  return new Map(
    rows.map(({ keyId, requests, promptTokens, completionTokens }) => [
      keyId,
      { requests, prompt: promptTokens, completion: completionTokens },
    ]),
  );
}

const keyIdOf = (name: string) => {
  const list = JSON.parse(home.run('keys', 'list', '--json')) as { name: string; id: string }[];
  return list.find((key) => key.name === name)?.id as string;
};

it('gives the rest to the connection by which a client has come back, though the first still stands', async () => {
  const key = home.createKey('twice', 'normal');
  const server = await home.start();
  const ask = { ...askOf(1, key), id: 'twice' };
  const body = { ...ask.body, max_tokens: 600 };
  const first = new AbortController();
  const heard: string[] = [];
  const before = fetch(`${server.url}${ask.path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'x-request-id': ask.id },
    body: JSON.stringify({ ...body, stream: true }),
    signal: first.signal,
  }).then(async (response) => {
    for await (const piece of response.body ?? []) heard.push(Buffer.from(piece).toString());
  });
  await waitUntil(() => heard.length > 3);
  const after = await resumedStream(server.url, { ...ask, body }, undefined, '0');
  await before;
  expect(heard.join('')).toMatch(/"code":"superseded"/);
  const undisturbed = await resumedStream(server.url, { ...ask, body, id: 'calm' });
  expect(firstDifference(after.events, undisturbed.events)).toBeUndefined();
  await server.stop();
}, 300_000);

it(`gives ${STREAMS} streams what they would have had, over ${STOPS} stops and kills, and charges it once`, async () => {
  const names = ['struck', 'calm'].map((name) => `${name} ${++keys}`);
  const [struck, calm] = names.map((name) => home.createKey(name, 'normal')) as [string, string];
  const flags = ['--port', String(await freePort()), '--shutdown-limit', '0'];
  let server: ServerProcess = await home.start(...flags);
  let heard = 0;
  const asked = Array.from({ length: STREAMS }, (_, at) => askOf(at, struck));
  const streams = asked.map((ask) => resumedStream(server.url, ask, () => void heard++));
  const all = Promise.all(streams);
  let isOver = false;
  void all
    .finally(() => {
      isOver = true;
    })
    .catch(() => {});
  for (let stop = 0; stop < STOPS && !isOver; stop++) {
    const before = heard;
    await waitUntil(() => isOver || heard >= before + EVENTS_A_LIFE);
    server.signal(stop % 2 === 0 ? 'SIGKILL' : 'SIGTERM');
    await server.exited;
    server = await home.start(...flags);
  }
  const came = await all;
  expect(came.some(({ returns }) => returns > 0)).toBe(true);
  expect(came.flatMap(({ told }) => told).every((message) => message.includes('Last-Event-ID: '))).toBe(true);
  const undisturbed = await Promise.all(
    asked.map((ask) => resumedStream(server.url, { ...ask, key: calm, id: `calm-${ask.id}` })),
  );
  for (const [at, { events }] of came.entries()) {
    const ask = asked[at] as ResumedAsk;
    expect(
      firstDifference(events, undisturbed[at]?.events ?? []),
      `stream ${at} of ${ask.path}`,
    ).toBeUndefined();
  }
  server.signal('SIGTERM');
  expect(await server.exited).toBe(0);
  const books = await charged();
  const [once, reference] = names.map((name) => books.get(keyIdOf(name)));
  expect(once).toEqual(reference);
  expect(once?.requests).toBe(STREAMS);
}, 600_000);
