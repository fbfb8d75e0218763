// The running program with several models: side by side within a small memory budget, and coming and going while it
// runs.

import { copyFileSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { startBytes } from '../support/embedded-memory.ts';
import { embeddedModelPath } from '../support/embedded-model.ts';
import { ServerHome, type ServerProcess, serverHome, waitUntil } from '../support/server-process.ts';

const home = serverHome();
let server: ServerProcess;
let key: string;
let folder: string;

beforeAll(async () => {
  key = home.createKey('tester', 'normal', '--admin');
  folder = join(home.folder, 'models');
  mkdirSync(folder);
  for (const name of ['one', 'two', 'three']) copyFileSync(embeddedModelPath, join(folder, `${name}.gguf`));
  // For three of them as they start, and not for a fourth; one alone might take all of it.
  server = await home.start('--models-folder', folder, '--memory', megabytes(3.4 * startBytes));
});

const megabytes = (bytes: number) => `${Math.round(bytes / 1e6)}MB`;

const post = (path: string, body: object) =>
  fetch(`${server.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify(body),
  });

async function answer(model: string): Promise<string> {
  const response = await post('/v1/completions', { model, prompt: 'Once', max_tokens: 5, temperature: 0 });
  expect(response.status).toBe(200);
  const { choices } = (await response.json()) as { choices: { text: string }[] };
  return choices[0]?.text as string;
}

async function names(): Promise<string[]> {
  const headers = { authorization: `Bearer ${key}` };
  const { data } = (await (await fetch(`${server.url}/v1/models`, { headers })).json()) as {
    data: { id: string }[];
  };
  return data.map(({ id }) => id);
}

const loads = () => [...server.log().matchAll(/"model loading"/g)].length;

describe('models of a server', () => {
  it('stay loaded side by side by default, and take turns without a reload', async () => {
    const models = await names();
    expect(models.length).toBe(3);
    const texts = new Set<string>();
    for (let round = 0; round < 3; round++) for (const model of models) texts.add(await answer(model));
    expect(texts.size).toBe(1);
    expect(loads()).toBe(3);
    expect(server.log()).not.toContain('"model unloaded"');
  });

  it('can be told to leave twice, and come back when they are asked for', async () => {
    for (let times = 0; times < 2; times++) {
      const response = await post('/admin/models/unload', { model: 'one' });
      expect(response.status).toBe(200);
      expect(await response.json()).toMatchObject({ name: 'one', state: 'unloaded' });
    }
    await answer('one');
    expect(loads()).toBe(4);
  });

  it('are served as soon as they are there, and no longer when they are gone', async () => {
    copyFileSync(embeddedModelPath, join(folder, 'late.gguf'));
    await waitUntil(async () => (await names()).includes('late'));
    await answer('late');
    rmSync(join(folder, 'late.gguf'));
    await answer('late');
    // The server has looked into the folder again by then.
    await sleep(1100);
    const response = await post('/admin/models/unload', { model: 'late' });
    expect(await response.json()).toMatchObject({ name: 'late', state: 'unloaded' });
    expect(response.status).toBe(200);
    await waitUntil(async () => !(await names()).includes('late'));
    expect((await post('/v1/completions', { model: 'late', prompt: 'Once' })).status).toBe(404);
  });
});

describe('two models that fit only in turn', () => {
  it('change places: nobody is refused, the server stays ready, and a probe loads nothing', async () => {
    const inTurn = new ServerHome();
    const key = inTurn.createKey('tester', 'normal', '--admin');
    const models = join(inTurn.folder, 'models');
    mkdirSync(models);
    for (const name of ['one', 'two']) copyFileSync(embeddedModelPath, join(models, `${name}.gguf`));
    const server = await inTurn.start('--models-folder', models, '--memory', megabytes(1.2 * startBytes));
    try {
      const authorization = `Bearer ${key}`;
      const ask = async (n: number) => {
        const response = await fetch(`${server.url}/v1/completions`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', authorization },
          body: JSON.stringify({
            model: n % 2 === 0 ? 'one' : 'two',
            prompt: 'Once',
            max_tokens: 20,
            temperature: 0,
          }),
        });
        return [response.status, await response.text()] as const;
      };
      const seen = new Set<string>();
      let asking = true;
      const probe = async () => {
        while (asking) {
          const ready = await fetch(`${server.url}/ready`);
          seen.add(`ready ${ready.status} ${ready.ok ? '' : await ready.text()}`);
          const list = await fetch(`${server.url}/v1/models`, { headers: { authorization } });
          const { data } = (await list.json()) as { data: { state: string }[] };
          for (const { state } of data) seen.add(state);
          await sleep(20);
        }
      };
      const probing = probe();
      const answers = await Promise.all(Array.from({ length: 22 }, (_, n) => ask(n)));
      asking = false;
      await probing;
      expect(answers.filter(([status]) => status !== 200)).toEqual([]);
      expect([...seen].filter((one) => one.startsWith('ready') || one === 'failed')).toEqual(['ready 200 ']);
      expect(seen).toContain('waiting');
      // Each comes once, or twice where the other was asked for first.
      const loads = [...server.log().matchAll(/"model loading"/g)].length;
      expect(loads).toBeLessThanOrEqual(5);
    } finally {
      await server.stop();
      inTurn.remove();
    }
  });
});
