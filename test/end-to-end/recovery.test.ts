// The running program when the system gives it no engine process, or one hangs: nobody loses a token, everybody can
// see it, and all is well again by itself.

import { copyFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { type ServerProcess, serverHome, waitUntil } from '../support/server-process.ts';
import { type Answer, answersAlone, type StreamBody, StreamClient } from '../support/stream-client.ts';

const bodies: readonly StreamBody[] = ['miller', 'fox', 'queen'].map((hero, n) => ({
  prompt: `Once upon a time there was a ${hero} who`,
  // So many that they are under way still when the engine is struck, on a busy machine too.
  max_tokens: 1500,
  ignore_eos: true,
  ...(n % 2 === 0 ? { temperature: 0 } : { temperature: 0.9, seed: n }),
}));

const home = serverHome();
let server: ServerProcess;
let alone: Answer[];

beforeAll(async () => {
  // A Node of its own, which can be taken away as an update in place does.
  const node = join(home.folder, 'node');
  copyFileSync(process.execPath, node);
  home.node = node;
  server = await home.start('--step-timeout', '6s');
  alone = await answersAlone(server.url, bodies);
});

async function underWay(): Promise<StreamClient[]> {
  const clients = bodies.map((body) => new StreamClient(server.url, body));
  await waitUntil(() => clients.every(({ pieces }) => pieces >= 10));
  return clients;
}

async function health(): Promise<{ code: number; states: string[] }> {
  const response = await fetch(`${server.url}/health`);
  const { engines } = (await response.json()) as { engines: { state: string }[] };
  return { code: response.status, states: engines.map(({ state }) => state) };
}

/** Whether a request is answered without batching. */
async function isDirect(): Promise<boolean> {
  const response = await fetch(`${server.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt: 'Hello', max_tokens: 1 }),
  });
  expect(response.status).toBe(200);
  return response.headers.get('x-chairlift-mode') === 'direct';
}

describe('a server', () => {
  it('goes on without engine processes, says so, and goes back to them', async () => {
    const clients = await underWay();
    renameSync(home.node, `${home.node}.away`);
    process.kill(server.enginePid(), 'SIGKILL');
    expect(await Promise.all(clients.map(({ answer }) => answer))).toEqual(alone);
    expect(await health()).toEqual({ code: 200, states: ['direct'] });
    expect(await isDirect()).toBe(true);
    expect(server.log()).toMatch(/model fallback/);
    renameSync(`${home.node}.away`, home.node);
    const later = await underWay();
    await waitUntil(async () => (await health()).states[0] === 'ok');
    expect(await Promise.all(later.map(({ answer }) => answer))).toEqual(alone);
    expect(await isDirect()).toBe(false);
    expect(server.log()).toMatch(/model returned/);
  });

  it('replaces an engine that hangs', async () => {
    const clients = await underWay();
    const hung = server.enginePid();
    process.kill(hung, 'SIGSTOP');
    expect(await Promise.all(clients.map(({ answer }) => answer))).toEqual(alone);
    expect(server.enginePid()).not.toBe(hung);
  });
});
