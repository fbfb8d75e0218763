// The server behind sockets that a service manager holds: they outlive it, so that no connection is refused while it restarts.

import type { ChildProcess } from 'node:child_process';
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, expect, it } from 'vitest';
import { serverHome, waitUntil } from '../support/server-process.ts';
import { SocketHolder } from '../support/socket-holder.ts';

const home = serverHome();
const folder = mkdtempSync(join(tmpdir(), 'chairlift-held-'));
const holders: SocketHolder[] = [];
const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  for (const holder of holders.splice(0)) holder.close();
});
afterAll(() => rmSync(folder, { recursive: true }));

const hasActivate = spawnSync('systemd-socket-activate', ['--version']).status === 0;

interface Started {
  readonly child: ChildProcess;
  readonly output: () => string;
  readonly exited: Promise<number | null>;
}

function followed(child: ChildProcess): Started {
  children.push(child);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve));
  return { child, output: () => output, exited };
}

function newHolder(): SocketHolder {
  const holder = new SocketHolder();
  holders.push(holder);
  return holder;
}

function launch(holder: SocketHolder, env: NodeJS.ProcessEnv = {}, ...flags: string[]): Started {
  const all = { PATH: process.env.PATH, HOME: home.folder, ...env };
  return followed(holder.launch(home.command(...flags), { cwd: home.folder, env: all }));
}

const listens = (server: Started) =>
  waitUntil(() => {
    if (server.child.exitCode !== null) throw new Error(server.output());
    return /listens on/.test(server.output());
  });

interface Came {
  readonly status: number | undefined;
  readonly text: string;
}

/** On a connection of its own. */
function ask(where: { port: number } | { socketPath: string }, path: string, headers = {}): Promise<Came> {
  return new Promise((resolve, reject) => {
    const request = httpRequest({ host: '127.0.0.1', ...where, path, agent: false, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (piece: string) => {
        text += piece;
      });
      response.on('end', () => resolve({ status: response.statusCode, text })).on('error', reject);
    });
    request.on('error', reject).end();
  });
}

it('loses no connection attempt while it is restarted, and told to stop in every way', async () => {
  const holder = newHolder();
  const port = holder.open('main');
  let server = launch(holder);
  await listens(server);
  expect(server.output()).toContain(`http://127.0.0.1:${port}`);
  const outcomes: Promise<Came>[] = [];
  const knocking = setInterval(() => outcomes.push(ask({ port }, '/v1/models')), 20);
  const restart = async (signal: NodeJS.Signals) => {
    server.child.kill(signal);
    expect(await server.exited).toBe(signal === 'SIGTERM' ? 0 : null);
    server = launch(holder);
    await listens(server);
  };
  await waitUntil(() => outcomes.length > 20);
  await restart('SIGTERM');
  await restart('SIGTERM');
  const asked = outcomes.length;
  await waitUntil(() => outcomes.length > asked + 20);
  clearInterval(knocking);
  const came = await Promise.all(outcomes);
  // What had come to the server that was told to stop may hear that, with when to come again.
  expect(came.length).toBeGreaterThan(60);
  expect(came.filter(({ status }) => status !== 200)).toEqual([]);
}, 300_000);

it('lets answers that run end, and leaves those who come meanwhile to the next server', async () => {
  const holder = newHolder();
  const port = holder.open('main');
  const first = launch(holder);
  await listens(first);
  const body = JSON.stringify({ prompt: 'The fox', max_tokens: 600, ignore_eos: true, stream: true });
  const response = await fetch(`http://127.0.0.1:${port}/v1/completions`, { method: 'POST', body });
  const text = response.text();
  first.child.kill('SIGTERM');
  await waitUntil(() => first.output().includes('closing'));
  const late = ask({ port }, '/health');
  expect(await text).toContain('data: [DONE]');
  expect(await first.exited).toBe(0);
  await listens(launch(holder));
  expect((await late).status).toBe(200);
}, 300_000);

it('takes several sockets, of the network and of files, and one for administration', async () => {
  const holder = newHolder();
  const socketPath = join(folder, 'own.sock');
  const port = holder.open('main');
  const adminPort = holder.open('admin');
  holder.openFile('main', socketPath);
  const key = home.createKey('held', 'normal');
  const headers = { authorization: `Bearer ${key}` };
  const server = launch(holder, {}, '--admin-port', '1');
  await listens(server);
  for (const where of [{ port }, { socketPath }]) {
    expect((await ask(where, '/v1/models', headers)).status).toBe(200);
    expect((await ask(where, '/metrics', headers)).status).toBe(404);
  }
  // Who comes by a file has no address that could show it to be of this machine.
  expect((await ask({ socketPath }, '/v1/models')).status).toBe(401);
  expect((await ask({ port: adminPort }, '/metrics')).status).toBe(200);
  server.child.kill('SIGTERM');
  expect(await server.exited).toBe(0);
  // The engine it had was handed nothing: the file answers again with the next server alone.
  await listens(launch(holder, {}, '--admin-port', '1'));
  expect((await ask({ socketPath }, '/v1/models', headers)).status).toBe(200);
}, 300_000);

it('refuses sockets that it would not listen on, with one line', async () => {
  const holder = newHolder();
  holder.open('admin');
  const server = launch(holder);
  expect(await server.exited).toBe(1);
  expect(server.output()).toMatch(/LISTEN_FDS: all sockets are named admin/);
}, 120_000);

it('tells systemd when it listens and when it ends, and that it lives', async () => {
  // In systemd's place stands a program that writes down what it is told.
  const told = join(folder, 'told');
  rmSync(told, { force: true });
  const program = join(folder, 'systemd-notify');
  writeFileSync(program, `#!/bin/sh\necho "$NOTIFY_SOCKET $@" >> ${told}\n`, { mode: 0o755 });
  const env = {
    PATH: `${folder}:${process.env.PATH}`,
    NOTIFY_SOCKET: '/run/notify',
    WATCHDOG_USEC: '400000',
  };
  const holder = newHolder();
  holder.open('main');
  const server = launch(holder, env);
  await listens(server);
  await waitUntil(() => readFileSync(told, 'utf8').split('WATCHDOG=1').length > 3);
  server.child.kill('SIGTERM');
  expect(await server.exited).toBe(0);
  const lines = readFileSync(told, 'utf8').trim().split('\n');
  const pid = server.child.pid;
  expect(lines[0]).toMatch(new RegExp(`^/run/notify --pid=${pid} --ready --status=listens on http`));
  // A sign of life that was sent before may be written down after it.
  const stopping = lines.findIndex((line) => line.includes('STOPPING=1'));
  expect(stopping).toBeGreaterThan(0);
  expect(lines.slice(stopping + 1).every((line) => line.includes('WATCHDOG=1'))).toBe(true);
}, 120_000);

it.skipIf(!hasActivate)(
  'is started by systemd’s own program with the first connection (skipped where that is not installed)',
  async () => {
    const holder = newHolder();
    const port = holder.open('probe');
    holder.close();
    const args = [
      '-l',
      `127.0.0.1:${port}`,
      ...['HOME', 'PATH'].map((name) => `--setenv=${name}`),
      ...home.command(),
    ];
    const env = { PATH: process.env.PATH, HOME: home.folder };
    const activator = followed(spawn('systemd-socket-activate', args, { cwd: home.folder, env }));
    await waitUntil(() => /Listening/.test(activator.output()));
    expect((await ask({ port }, '/health')).status).toBe(200);
    activator.child.kill('SIGTERM');
    expect(await activator.exited).toBe(0);
  },
  120_000,
);
