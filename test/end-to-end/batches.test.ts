// A batch under a server that is killed again and again: every line is answered once, with the words it gets alone.

import { setTimeout as sleep } from 'node:timers/promises';
import OpenAI, { toFile } from 'openai';
import { beforeAll, expect, it } from 'vitest';
import type { OutputLine } from '../support/batch-server.ts';
import { type ServerProcess, serverHome, waitUntil } from '../support/server-process.ts';

const LINES = 240;
const KILLS = 3;

const bodies = Array.from({ length: 30 }, (_, n) => ({
  model: 'default',
  prompt: `Once upon a time there was a ${['miller', 'fox', 'queen'][n % 3]} who had ${n} `,
  max_tokens: 3 + (n % 8),
  ...(n % 2 === 0 ? { temperature: 0 } : { temperature: 0.9, seed: n }),
}));
const bodyOf = (line: number) => bodies[line % bodies.length] as (typeof bodies)[number];

const home = serverHome();
let server: ServerProcess;
let client: OpenAI;

beforeAll(async () => {
  await startServer();
});

async function startServer(): Promise<void> {
  server = await home.start('--alias', 'default=chairlift-demo-14m-q8_0');
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 2 });
}

async function submit(): Promise<string> {
  const lines = Array.from({ length: LINES }, (_, n) =>
    JSON.stringify({ custom_id: `line-${n}`, method: 'POST', url: '/v1/completions', body: bodyOf(n) }),
  );
  const file = await toFile(Buffer.from(`${lines.join('\n')}\n`), 'input.jsonl');
  const { id: input_file_id } = await client.files.create({ file, purpose: 'batch' });
  const batch = await client.batches.create({
    input_file_id,
    endpoint: '/v1/completions',
    completion_window: '24h',
    metadata: { of: 'a test' },
  });
  return batch.id;
}

async function answered(id: string): Promise<number> {
  // Asking is work, too.
  await sleep(30);
  const { request_counts: counts } = await client.batches.retrieve(id);
  return (counts?.completed ?? 0) + (counts?.failed ?? 0);
}

it('a batch outlives a server that is killed in the middle of it, each line answered once', async () => {
  const id = await submit();
  for (let kill = 1; kill <= KILLS; kill++) {
    // At random, but with lines done since the last time, and lines left.
    const share = (LINES * 0.8) / KILLS;
    const goal = Math.ceil((kill - 1) * share + 1 + Math.random() * share);
    await waitUntil(async () => (await answered(id)) >= goal);
    server.signal('SIGKILL');
    await server.exited;
    await startServer();
    expect(await answered(id)).toBeGreaterThanOrEqual(goal);
  }
  await waitUntil(async () => (await answered(id)) === LINES);
  await waitUntil(async () => (await client.batches.retrieve(id)).status === 'completed');
  const batch = await client.batches.retrieve(id);
  expect(batch.request_counts).toEqual({ total: LINES, completed: LINES, failed: 0 });
  expect(batch.metadata).toEqual({ of: 'a test' });
  expect(batch.error_file_id).toBeNull();
  const content = await (await client.files.content(batch.output_file_id as string)).text();
  const lines = content
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as OutputLine);
  expect(lines.map((line) => line.custom_id)).toEqual(Array.from({ length: LINES }, (_, n) => `line-${n}`));
  await countsOnce(lines);
  const alone = [];
  for (const body of bodies) alone.push((await client.completions.create(body)).choices);
  for (const [n, line] of lines.entries()) {
    expect(line.response?.body.choices).toEqual(alone[n % bodies.length]);
  }
});

/** Nothing else was asked of this server. */
async function countsOnce(lines: readonly OutputLine[]): Promise<void> {
  const response = await fetch(`${server.url}/admin/usage`);
  const { data } = (await response.json()) as { data: { requests: number; completionTokens: number }[] };
  const tokens = lines.map((line) => line.response?.body.usage as { completion_tokens: number });
  expect(data.reduce((sum, row) => sum + row.requests, 0)).toBe(LINES);
  expect(data.reduce((sum, row) => sum + row.completionTokens, 0)).toBe(
    tokens.reduce((sum, usage) => sum + usage.completion_tokens, 0),
  );
}
