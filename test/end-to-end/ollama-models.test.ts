// Models that come, stay for a while and go, as Ollama's client tells the running program.

import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ollama, type ProgressResponse } from 'ollama';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { embeddedModelPath } from '../support/embedded-model.ts';
import { type HubStandIn, startHub } from '../support/hub-stand-in.ts';
import { type ServerProcess, serverHome, waitUntil } from '../support/server-process.ts';

const bytes = readFileSync(embeddedModelPath);
const repository = 'hf.co/ann/tiny';
const file = 'tiny-Q8_0.gguf';

let hub: HubStandIn;
const home = serverHome();
let server: ServerProcess;
let folder: string;
let client: Ollama;

beforeAll(async () => {
  hub = await startHub({
    'ann/tiny': {
      [file]: { bytes, lfs: true },
      'other-Q4_0.gguf': { bytes: Buffer.from('no model at all'), lfs: true },
    },
  });
  const key = home.createKey('tester', 'normal', '--admin');
  folder = join(home.folder, 'models');
  mkdirSync(folder);
  home.environment = { HF_ENDPOINT: hub.url };
  server = await home.start('--models-folder', folder);
  client = new Ollama({ host: server.url, headers: { authorization: `Bearer ${key}` } });
});

afterAll(() => hub.close());

const names = async () => (await client.list()).models.map(({ name }) => name);
const loaded = async () => (await client.ps()).models.map(({ name }) => name);

async function pull(model: string): Promise<ProgressResponse[]> {
  const lines: ProgressResponse[] = [];
  for await (const line of await client.pull({ model, stream: true })) lines.push(line);
  return lines;
}

const options = { num_predict: 2, temperature: 0 };
const greet = (model: string, keep_alive?: string | number) =>
  client.chat({
    model,
    messages: [{ role: 'user', content: 'Hello' }],
    options,
    ...(keep_alive === undefined ? {} : { keep_alive }),
  });

describe("models of Ollama's client", () => {
  it('are pulled with progress, and answer at once', async () => {
    const lines = await pull(`${repository}:Q8_0`);
    expect(lines[0]?.status).toBe('pulling manifest');
    expect(lines.at(-1)?.status).toBe('success');
    const progress = lines.filter(({ digest }) => digest !== undefined);
    expect(progress.length).toBeGreaterThan(0);
    for (const { total, digest } of progress) {
      expect(total).toBe(bytes.length);
      expect(digest).toMatch(/^sha256:[0-9a-f]{64}$/);
    }
    expect(progress.at(-1)?.completed).toBe(bytes.length);
    expect(await names()).toContain('tiny');
    const answer = await greet('tiny:latest', '5m');
    expect(answer.model).toBe('tiny:latest');
    expect(answer.load_duration).toBeGreaterThan(0);
    expect((await greet(`${repository}:Q8_0`)).eval_count).toBe(2);
    expect(await client.pull({ model: `hf:ann/tiny:${file}` })).toEqual({ status: 'success' });
  });

  it('that cannot be pulled say why', async () => {
    await expect(pull('no-such-name')).rejects.toThrow(/hf\.co\/owner\/repo/);
    await expect(pull('llama3.2')).rejects.toThrow(
      /there is no model bartowski\/Llama-3\.2-3B-Instruct-GGUF/,
    );
    await expect(pull('hf.co/ann/nothing')).rejects.toThrow(/there is no model ann\/nothing/);
    await expect(pull(repository)).rejects.toThrow(/several GGUF models.*tiny-Q8_0\.gguf/);
    await expect(pull(`${repository}:Q4_0`)).rejects.toThrow(/cannot be served/);
    await expect(client.pull({ model: repository })).rejects.toMatchObject({ status_code: 502 });
  });

  it('stay as long as the last request said', async () => {
    const expiry = async () => {
      const { models } = await client.ps();
      return Date.parse(String(models.find(({ name }) => name === 'tiny')?.expires_at)) - Date.now();
    };
    await greet('tiny', '2h');
    expect(await expiry()).toBeGreaterThan(7_000_000);
    // Nothing was said: it stays as it was.
    await greet('tiny');
    expect(await expiry()).toBeGreaterThan(7_000_000);
    await greet('tiny', 30);
    expect(await expiry()).toBeLessThan(31_000);
    await greet('tiny', -1);
    expect(await expiry()).toBeGreaterThan(1e12);
    await greet('tiny', 0);
    await waitUntil(async () => !(await loaded()).includes('tiny'));
    const asked = client.generate({ model: 'tiny', prompt: '' });
    expect((await asked).done_reason).toBe('load');
    expect(await loaded()).toContain('tiny');
    expect((await client.generate({ model: 'tiny', prompt: '', keep_alive: 0 })).done_reason).toBe('unload');
    expect(await loaded()).not.toContain('tiny');
  });

  it('are deleted with their files, and no others are', async () => {
    const path = join(folder, 'ann', 'tiny', file);
    expect(existsSync(path)).toBe(true);
    await client.delete({ model: 'tiny' });
    expect(existsSync(path)).toBe(false);
    expect(await names()).not.toContain('tiny');
    await expect(greet('tiny')).rejects.toMatchObject({ status_code: 404, error: "model 'tiny' not found" });
    const [embedded = ''] = await names();
    await expect(client.delete({ model: embedded })).rejects.toMatchObject({ status_code: 409 });
    expect(await names()).toEqual([embedded]);
  });
});
