import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { start } from '../../../test/support/keyed-server.ts';
import type { ModelOnDisk } from '../../pool/model-registry.ts';
import type { ModelDownloads } from '../context.ts';
import type { ListedModel } from './models.ts';

describe('the list of models for admins', () => {
  it('says what a model is, before it is loaded, too, and whether it fits', async () => {
    const { app } = await start();
    const { data } = (await app.inject('/admin/models')).json<{ data: ListedModel[] }>();
    const [model] = data;
    expect(model?.about).toMatchObject({ architecture: 'llama', contextLength: expect.any(Number) });
    expect(model?.about?.sizeBytes).toBeGreaterThan(0);
    expect(model?.fits).toBe(true);
    expect(model).not.toHaveProperty('problem');
  });
});

describe('models that cannot be served', () => {
  const folder = mkdtempSync(join(tmpdir(), 'chairlift-models-'));
  afterAll(() => rmSync(folder, { recursive: true }));
  const modelAt = (name: string, path: string): ModelOnDisk => ({
    name,
    path,
    createdSeconds: 1,
    sizeBytes: 3,
    format: 'gguf',
    problem: `${path}: is cut off`,
  });

  it('are listed last with their reason; files that lie in the models folder can be deleted', async () => {
    const own = join(folder, 'cut.gguf');
    writeFileSync(own, 'cut');
    let broken = [modelAt('cut', own), modelAt('far', '/elsewhere/far.gguf')];
    const downloads = { folder, hub: {} as ModelDownloads['hub'], shortNames: new Map() };
    const { app } = await start({ downloads, brokenModels: () => broken });
    const list = async () => (await app.inject('/admin/models')).json<{ data: ListedModel[] }>().data;
    const models = await list();
    expect(models[0]).toMatchObject({ isDeletable: false });
    expect(models.slice(-2)).toMatchObject([
      { name: 'cut', state: 'failed', problem: `${own}: is cut off`, sizeBytes: 3, isDeletable: true },
      { name: 'far', state: 'failed', isDeletable: false },
    ]);
    const remove = (model: string) =>
      app.inject({ method: 'DELETE', url: '/api/delete', payload: { model } });
    expect((await remove('far')).statusCode).toBe(409);
    expect((await remove('cut')).statusCode).toBe(200);
    expect(existsSync(own)).toBe(false);
    broken = [];
    expect(await list()).toHaveLength(models.length - 2);
  });

  it('are not those whose files are still coming: nobody may delete them', async () => {
    const hub = createServer().listen(0, '127.0.0.1');
    await once(hub, 'listening');
    const { port } = hub.address() as AddressInfo;
    const asked = once(hub, 'request');
    const downloads = { folder, hub: { url: `http://127.0.0.1:${port}` }, shortNames: new Map() };
    const { app } = await start({
      downloads,
      brokenModels: () => [modelAt('coming', join(folder, 'ann/one/coming.gguf'))],
    });
    const names = async () => {
      const { data } = (await app.inject('/admin/models')).json<{ data: ListedModel[] }>();
      return data.map(({ name }) => name);
    };
    const pulling = app.inject({
      method: 'POST',
      url: '/api/pull',
      payload: { model: 'ann/one', stream: false },
    });
    const [, answer] = (await asked) as [unknown, ServerResponse];
    expect(await names()).not.toContain('coming');
    const removed = await app.inject({ method: 'DELETE', url: '/api/delete', payload: { model: 'coming' } });
    expect(removed.statusCode).toBe(404);
    answer.writeHead(404).end();
    expect((await pulling).statusCode).toBe(502);
    expect(await names()).toContain('coming');
    hub.close();
  });
});
