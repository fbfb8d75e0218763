// The running program told to end, in every way a person or a machine does that: nothing that runs is lost before its time
// is over, what was computed is charged, and nothing is left behind.

import type { ChildProcess } from 'node:child_process';
import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import OpenAI, { toFile } from 'openai';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { openDatabase } from '../../src/store/open-database.ts';
import { reportUsage } from '../../src/store/usage-report.ts';
import { childrenOf, isAlive, ServerHome, type ServerProcess, waitUntil } from '../support/server-process.ts';
import { StreamClient } from '../support/stream-client.ts';

const body = { prompt: 'Once upon a time', max_tokens: 150, ignore_eos: true, temperature: 0 };
/** Of the stream: enough that it has not ended when the engine is held. */
const STREAM_TOKENS = 1000;
// Enough that some are left where a busy machine takes seconds until the engine is held.
const LINES = 40;
const hasScript = (() => {
  try {
    return execFileSync('script', ['--version'], { encoding: 'utf8' }).includes('util-linux');
  } catch {
    return false;
  }
})();

const homes: ServerHome[] = [];
const launched: ChildProcess[] = [];
afterEach(() => {
  for (const child of launched.splice(0)) child.kill('SIGKILL');
});
afterAll(() => {
  for (const home of homes.splice(0)) home.remove();
});

function newHome(): ServerHome {
  const home = new ServerHome();
  homes.push(home);
  return home;
}

interface Usage {
  readonly requests: number;
  readonly completionTokens: number;
}

/** Of all keys, as it was written. */
async function usageOf({ database: path }: ServerHome): Promise<Usage> {
  const database = await openDatabase(path);
  const rows = await reportUsage(database, {});
  await database.close();
  const sum = (of: (row: Usage) => number) => rows.reduce((all, row) => all + of(row), 0);
  return { requests: sum((row) => row.requests), completionTokens: sum((row) => row.completionTokens) };
}

/** What SQLite leaves where it was not closed. */
const sideFiles = (home: ServerHome) =>
  readdirSync(home.folder).filter((name) => /-(wal|shm|journal)$/.test(name));

async function submitBatch({ url }: ServerProcess): Promise<string> {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
  const line = (n: number) => ({ custom_id: `line-${n}`, method: 'POST', url: '/v1/completions', body });
  const lines = Array.from({ length: LINES }, (_, n) => JSON.stringify(line(n)));
  const file = await toFile(Buffer.from(lines.join('\n')), 'input.jsonl');
  const { id: input_file_id } = await client.files.create({ file, purpose: 'batch' });
  const order = { input_file_id, endpoint: '/v1/completions', completion_window: '24h' } as const;
  return (await client.batches.create(order)).id;
}

async function batchOf({ url }: ServerProcess, id: string) {
  const response = await fetch(`${url}/v1/batches/${id}`);
  return (await response.json()) as { status: string; request_counts: { completed: number; failed: number } };
}

/** A server with a stream, and lines of a batch, under way in an engine that is held. */
async function heldServer(home: ServerHome, ...flags: string[]) {
  const server = await home.start('--batch-concurrency', '2', ...flags);
  const batch = await submitBatch(server);
  await waitUntil(async () => (await batchOf(server, batch)).request_counts.completed > 0);
  const engine = server.enginePid();
  const client = new StreamClient(server.url, { ...body, max_tokens: STREAM_TOKENS });
  await waitUntil(() => client.pieces > 0);
  process.kill(engine, 'SIGSTOP');
  return { server, client, batch, engine };
}

describe.concurrent('SIGTERM', () => {
  it.each([12, 25])(
    'lets a stream and lines of a batch that take %d s longer end, and refuses others',
    async (seconds) => {
      const home = newHome();
      const { server, client, batch, engine } = await heldServer(home, '--shutdown-limit', '90');
      const { completed } = (await batchOf(server, batch)).request_counts;
      server.signal('SIGTERM');
      await waitUntil(() => server.log().includes('closing'));
      await sleep(seconds * 1000);
      expect((await fetch(`${server.url}/ready`)).status).toBe(503);
      const late = await fetch(`${server.url}/v1/models`);
      expect(late.status).toBe(503);
      expect(late.headers.get('connection')).toBe('close');
      expect(await late.json()).toMatchObject({ error: { code: 'shutting_down' } });
      process.kill(engine, 'SIGCONT');
      expect(await client.answer).toMatchObject({ status: 200, done: true, reason: 'length' });
      const endedMs = performance.now();
      expect(await server.exited).toBe(0);
      // A connection that is kept alive is no reason to stay for its 72 seconds.
      expect(performance.now() - endedMs).toBeLessThan(40_000);
      expect(isAlive(engine)).toBe(false);
      expect(sideFiles(home)).toEqual([]);
      const { requests, completionTokens } = await usageOf(home);
      expect(completionTokens).toBe(STREAM_TOKENS + (requests - 1) * body.max_tokens);
      // The stream, lines that were done, and at least one that ran.
      expect(requests).toBeGreaterThan(1 + completed);
    },
  );

  it('after the limit ends what runs, charges what was computed, and has lines run again after a restart, once', async () => {
    const home = newHome();
    const held = await heldServer(home, '--shutdown-limit', '0.5');
    held.server.signal('SIGTERM');
    const { error, text } = await held.client.answer;
    expect(error).toMatchObject({ code: 'shutting_down' });
    expect(await held.server.exited).toBe(0);
    expect(sideFiles(home)).toEqual([]);
    const cut = await usageOf(home);
    const ofStream = cut.completionTokens - (cut.requests - 1) * body.max_tokens;
    expect(ofStream).toBeGreaterThan(0);
    expect(ofStream).toBeLessThan(STREAM_TOKENS);
    expect(text).not.toBe('');
    const server = await home.start();
    await waitUntil(async () => (await batchOf(server, held.batch)).status === 'completed');
    expect((await batchOf(server, held.batch)).request_counts).toMatchObject({ completed: LINES, failed: 0 });
    server.signal('SIGTERM');
    expect(await server.exited).toBe(0);
    expect(await usageOf(home)).toEqual({
      requests: LINES + 1,
      completionTokens: LINES * body.max_tokens + ofStream,
    });
  });

  it('twice ends what runs at once, in order', async () => {
    const home = newHome();
    const { server, client } = await heldServer(home, '--shutdown-limit', '600');
    server.signal('SIGTERM');
    await waitUntil(() => server.log().includes('closing'));
    server.signal('SIGTERM');
    expect(await client.answer).toMatchObject({ error: { code: 'shutting_down' } });
    expect(await server.exited).toBe(0);
    expect((await usageOf(home)).requests).toBeGreaterThan(1);
    expect(sideFiles(home)).toEqual([]);
  });
});

describe('a server that is still starting', () => {
  const isEngine = (pid: number) =>
    execFileSync('ps', ['-o', 'args=', '-p', `${pid}`], { encoding: 'utf8' }).includes('engine');
  const exitOf = (child: ChildProcess) =>
    new Promise((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal)));

  it('ends at once though its model takes long to load, and leaves no engine', async () => {
    const home = newHome();
    const child = home.launch();
    launched.push(child);
    const exited = exitOf(child);
    // Held between fork and exec, it would hold its parent in the system call, too.
    await waitUntil(() => childrenOf(child.pid as number).some(isEngine));
    const [engine = 0] = childrenOf(child.pid as number).filter(isEngine);
    process.kill(engine, 'SIGSTOP');
    child.kill('SIGTERM');
    expect(await exited).toBe(0);
    expect(isAlive(engine)).toBe(false);
    expect(sideFiles(home)).toEqual([]);
  });

  it.each([
    ['the database', ['--database', 'postgres://127.0.0.1:1/none']],
    ['the fleet', ['--join', 'nats://127.0.0.1:1']],
  ])('ends at once though it waits for %s', async (_, flags) => {
    const child = newHome().launch(...flags);
    launched.push(child);
    const exited = exitOf(child);
    let log = '';
    child.stderr?.on('data', (text) => {
      log += text;
    });
    await waitUntil(() => log.includes('waits for'));
    child.kill('SIGINT');
    expect(await exited).toBe(0);
  });
});

describe.skipIf(!hasScript)('in a terminal (needs script of util-linux)', () => {
  async function inTerminal() {
    const home = newHome();
    const terminal = home.launchInTerminal('--shutdown-limit', '60');
    launched.push(terminal);
    let shown = '';
    terminal.stdout?.on('data', (text) => {
      shown += text;
    });
    await waitUntil(() => /listens on \S+ /.test(shown));
    const url = /listens on (\S+) /.exec(shown)?.[1] as string;
    const [pid = 0] = childrenOf(terminal.pid as number);
    const [engine = 0] = childrenOf(pid);
    const client = new StreamClient(url, { ...body, max_tokens: STREAM_TOKENS });
    await waitUntil(() => client.pieces > 0);
    process.kill(engine, 'SIGSTOP');
    return { home, terminal, pid, engine, url, client, shown: () => shown };
  }

  it('the server lets running answers end and ends itself when the terminal is closed', async () => {
    const { home, terminal, pid, engine, client, url } = await inTerminal();
    terminal.kill('SIGKILL');
    await waitUntil(async () => (await fetch(`${url}/ready`)).status === 503);
    expect(isAlive(engine)).toBe(true);
    process.kill(engine, 'SIGCONT');
    expect(await client.answer).toMatchObject({ status: 200, done: true });
    await waitUntil(() => !isAlive(pid) && !isAlive(engine));
    expect(await usageOf(home)).toEqual({ requests: 1, completionTokens: STREAM_TOKENS });
    expect(sideFiles(home)).toEqual([]);
  });

  it('Ctrl-C lets running answers end, and SIGHUP from elsewhere reads the keys again', async () => {
    const { terminal, pid, engine, client, shown } = await inTerminal();
    process.kill(pid, 'SIGHUP');
    await waitUntil(() => shown().includes('read the keys again'));
    terminal.stdin?.write('\x03');
    await waitUntil(() => shown().includes('closing'));
    process.kill(engine, 'SIGCONT');
    expect(await client.answer).toMatchObject({ status: 200, done: true });
    await waitUntil(() => !isAlive(pid) && !isAlive(engine));
  });
});

it('a server whose output nobody reads any more goes on, and ends in order', async () => {
  const home = newHome();
  const child = home.launch();
  launched.push(child);
  let output = '';
  await new Promise<void>((resolve) => {
    child.stdout?.on('data', (text) => {
      output += text;
      if (output.includes('listens on')) resolve();
    });
  });
  const url = /listens on (\S+) /.exec(output)?.[1] as string;
  child.stdout?.destroy();
  child.stderr?.destroy();
  const exited = new Promise((resolve) => child.once('exit', resolve));
  for (let n = 0; n < 3; n++) {
    const { answer } = new StreamClient(url, { ...body, max_tokens: 3 });
    expect(await answer).toMatchObject({ status: 200, done: true });
  }
  child.kill('SIGTERM');
  expect(await exited).toBe(0);
  expect((await usageOf(home)).requests).toBe(3);
});
