// Slots that are saved by a server, and restored by the next one: the real program, with keys.

import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { hasAddon } from '../support/native.ts';
import { type ServerProcess, serverHome, waitUntil } from '../support/server-process.ts';

const home = serverHome();
const folder = join(home.folder, 'slots');
const prompt = 'The bell of the village rang once more over the quiet hills. '.repeat(12);
const filename = 'bell.bin';

interface Answered {
  readonly content: string;
  readonly timings: { readonly cache_n: number; readonly prompt_n: number };
  readonly n_saved: number;
  readonly n_written: number;
}

async function post({ url }: ServerProcess, key: string, path: string, body: object) {
  const response = await fetch(`${url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify(body),
  });
  return { status: response.status, body: (await response.json()) as Answered };
}

const answered = async (server: ServerProcess, key: string) =>
  (await post(server, key, '/completion', { prompt, n_predict: 24, temperature: 0, id_slot: 1 })).body;

const start = () => home.start('--slot-save-path', folder, '--max-batch-size', '2');

const idOf = (name: string) =>
  (JSON.parse(home.run('keys', 'list', '--all', '--json')) as { id: string; name: string }[]).find(
    (key) => key.name === name,
  )?.id as string;

describe.skipIf(!hasAddon)('saved slots of the program (with the addon)', () => {
  it('are restored after a restart, and the answer is the same', async () => {
    const key = home.createKey('ann', 'normal');
    const first = await start();
    const computed = await answered(first, key);
    expect(computed.timings.cache_n).toBe(0);
    const saved = await post(first, key, '/slots/1?action=save', { filename });
    expect(saved).toMatchObject({ status: 200, body: { id_slot: 1, filename } });
    first.signal('SIGTERM');
    expect(await first.exited).toBe(0);

    const next = await start();
    const restored = await post(next, key, '/slots/0?action=restore', { filename });
    const { n_saved, n_written } = saved.body;
    expect(restored).toMatchObject({ status: 200, body: { n_restored: n_saved, n_read: n_written } });
    const again = await answered(next, key);
    expect(again.content).toBe(computed.content);
    expect(again.timings.cache_n).toBeGreaterThanOrEqual(128);
    expect(again.timings.prompt_n).toBeLessThanOrEqual(32);
    await next.stop();
  });

  it('may have more blocks than a model begins with', async () => {
    const key = home.createKey('big', 'normal');
    const first = await start();
    const body = { prompt: prompt.repeat(14), n_predict: 4, temperature: 0, id_slot: 0 };
    const computed = await post(first, key, '/completion', body);
    const saved = await post(first, key, '/slots/0?action=save', { filename });
    expect(saved.body.n_saved).toBeGreaterThan(64 * 32);
    await first.stop();
    const next = await start();
    expect(await post(next, key, '/slots/0?action=restore', { filename })).toMatchObject({ status: 200 });
    const again = await post(next, key, '/completion', body);
    expect(again.body.timings.cache_n).toBeGreaterThan(64 * 32);
    expect(again.body.content).toBe(computed.body.content);
    await next.stop();
  });

  it('are deleted with their key, by the API or by the command, whether a server runs or not', async () => {
    const admin = home.createKey('admin', 'high', '--admin');
    const keys = ['bea', 'cleo', 'dora'].map((name) => home.createKey(name, 'normal'));
    const ids = ['bea', 'cleo', 'dora'].map(idOf);
    const server = await start();
    for (const key of keys) {
      await answered(server, key);
      expect((await post(server, key, '/slots/1?action=save', { filename })).status).toBe(200);
    }
    const [bea, cleo, dora] = ids.map((id) => join(folder, id));
    expect([bea, cleo, dora].map((path) => readdirSync(path as string))).toEqual([
      [filename],
      [filename],
      [filename],
    ]);
    const response = await fetch(`${server.url}/admin/keys/bea`, {
      method: 'DELETE',
      headers: { authorization: `Bearer ${admin}` },
    });
    expect(response.status).toBe(200);
    await waitUntil(() => !existsSync(bea as string));
    // The command knows of no folder: the server on the same database does.
    home.run('keys', 'revoke', 'cleo');
    await waitUntil(() => !existsSync(cleo as string));
    expect(existsSync(dora as string)).toBe(true);
    await server.stop();
    home.environment = { CHAIRLIFT_SLOT_SAVE_PATH: folder };
    home.run('keys', 'revoke', 'dora');
    expect(existsSync(dora as string)).toBe(false);
  });
});
