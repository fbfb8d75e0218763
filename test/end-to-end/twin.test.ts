// A server and what is started beside it by mistake, or after it: a batch that is being read in is read in whole.

import type { ChildProcess } from 'node:child_process';
import { type AddressInfo, createServer } from 'node:net';
import OpenAI, { toFile } from 'openai';
import { beforeAll, expect, it } from 'vitest';
import { childrenOf, type ServerProcess, serverHome, waitUntil } from '../support/server-process.ts';

const LINES = 10_000;

const home = serverHome();
let server: ServerProcess;

beforeAll(async () => {
  server = await home.start('--batch-concurrency', '1');
});

const clientOf = ({ url }: ServerProcess) =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });

async function submit(): Promise<string> {
  const body = { prompt: 'Once', max_tokens: 1 };
  const lines = Array.from({ length: LINES }, (_, n) =>
    JSON.stringify({ custom_id: `line-${n}`, method: 'POST', url: '/v1/completions', body }),
  );
  const client = clientOf(server);
  const file = await toFile(Buffer.from(lines.join('\n')), 'input.jsonl');
  const { id: input_file_id } = await client.files.create({ file, purpose: 'batch' });
  const order = { input_file_id, endpoint: '/v1/completions', completion_window: '24h' } as const;
  return (await client.batches.create(order)).id;
}

/** Waits until all is read, calls the rest off, and looks at what the batch's files have. */
async function expectEveryLine(id: string): Promise<void> {
  const client = clientOf(server);
  await waitUntil(async () => (await client.batches.retrieve(id)).status !== 'validating');
  expect((await client.batches.retrieve(id)).request_counts?.total).toBe(LINES);
  await client.batches.cancel(id);
  await waitUntil(async () => (await client.batches.retrieve(id)).status === 'cancelled');
  const { output_file_id, error_file_id } = await client.batches.retrieve(id);
  const ids: string[] = [];
  for (const fileId of [output_file_id, error_file_id]) {
    if (fileId === null || fileId === undefined) continue;
    const text = await (await client.files.content(fileId)).text();
    for (const line of text.trimEnd().split('\n')) {
      ids.push((JSON.parse(line) as { custom_id: string }).custom_id);
    }
  }
  expect(ids).toHaveLength(LINES);
  expect(new Set(ids).size).toBe(LINES);
}

/** Its exit code and what it said, once it has ended. */
function ending(twin: ChildProcess): Promise<{ code: number | null; said: string }> {
  let said = '';
  twin.stderr?.on('data', (text) => {
    said += text;
  });
  return new Promise((resolve) => twin.once('close', (code) => resolve({ code, said })));
}

it('a second server on the same port and database says so before it loads a model', async () => {
  const { code, said } = await ending(home.launch('--port', new URL(server.url).port));
  expect(code).toBe(1);
  expect(said).toMatch(/port \d+ of 127.0.0.1 is in use; choose another with --port/);
  expect(said).not.toContain('model loading');
});

it('one that loses its port while it loads takes no line from the first', async () => {
  const other = createServer();
  const port = await new Promise<number>((resolve) => {
    other.listen(0, '127.0.0.1', () => resolve((other.address() as AddressInfo).port));
  });
  await new Promise((resolve) => other.close(resolve));
  const twin = home.launch('--port', String(port));
  const ended = ending(twin);
  // Held while it loads, so that it comes to where it would begin while the batch is read.
  await waitUntil(() => childrenOf(twin.pid as number).length > 0);
  const [engine = 0] = childrenOf(twin.pid as number);
  process.kill(engine, 'SIGSTOP');
  await new Promise<void>((resolve) => {
    other.listen(port, '127.0.0.1', resolve);
  });
  const id = await submit();
  process.kill(engine, 'SIGCONT');
  expect(await ended).toMatchObject({ code: 1, said: expect.stringContaining('is in use') });
  other.close();
  await expectEveryLine(id);
});

it('a batch that was being read in when its server was killed is read in again, whole and once', async () => {
  const id = await submit();
  server.signal('SIGKILL');
  await server.exited;
  server = await home.start('--batch-concurrency', '1');
  await expectEveryLine(id);
});
