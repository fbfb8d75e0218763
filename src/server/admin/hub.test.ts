import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type HubStandIn, startHub } from '../../../test/support/hub-stand-in.ts';
import { start, startWithKeys } from '../../../test/support/keyed-server.ts';

describe('the search of the hub for admins', () => {
  const folder = mkdtempSync(join(tmpdir(), 'chairlift-hub-'));
  let hub: HubStandIn;
  beforeAll(async () => {
    const gguf = (saysBytes: number) => ({ bytes: Buffer.from('x'), lfs: true, saysBytes });
    hub = await startHub(
      { 'ann/tiny-GGUF': { 'tiny-Q4_0.gguf': gguf(5000), 'tiny-F32.gguf': gguf(1e15) } },
      { 'ann/tiny-GGUF': { downloads: 3, gguf: { total: 9, architecture: 'llama' } } },
    );
  });
  afterAll(async () => {
    await hub.close();
    rmSync(folder, { recursive: true });
  });
  const downloads = () => ({ folder, hub: { url: hub.url } });

  it('finds models, and says of each file whether it fits this machine', async () => {
    const { app, pool } = await start({ downloads: downloads() });
    const found = await app.inject('/admin/hub/models?search=tiny');
    expect(found.json()).toMatchObject({
      hub: hub.url,
      memoryBytes: pool.memoryBytes,
      data: [{ name: 'ann/tiny-GGUF', supported: true }],
    });
    const files = await app.inject('/admin/hub/models/ann/tiny-GGUF');
    expect(files.json().data).toEqual([
      { model: 'ann/tiny-GGUF:Q4_0', quantization: 'Q4_0', sizeBytes: 5000, fits: true, here: false },
      { model: 'ann/tiny-GGUF:F32', quantization: 'F32', sizeBytes: 1e15, fits: false, here: false },
    ]);
  });

  it('names what is wrong with a request', async () => {
    const { app } = await start({ downloads: downloads() });
    const refusal = async (url: string) => {
      const response = await app.inject(url);
      return [response.statusCode, response.json().error.param];
    };
    expect(await refusal('/admin/hub/models')).toEqual([400, 'search']);
    expect(await refusal(`/admin/hub/models?search=${'a'.repeat(201)}`)).toEqual([400, 'search']);
    expect(await refusal('/admin/hub/models?search=tiny&format=onnx')).toEqual([400, 'format']);
    expect(await refusal('/admin/hub/models/../../etc')).toEqual([404, null]);
    expect(await refusal('/admin/hub/models/tiny')).toEqual([400, 'id']);
    expect(await refusal('/admin/hub/models/ann/tiny-GGUF:Q4_0')).toEqual([400, 'id']);
  });

  it('says that the hub cannot be reached, or that this server pulls nothing', async () => {
    const away = await start({ downloads: { folder, hub: { url: 'http://127.0.0.1:9' } } });
    const unreached = await away.app.inject('/admin/hub/models?search=tiny');
    expect(unreached.statusCode).toBe(502);
    expect(unreached.json().error).toMatchObject({
      code: 'hub_failed',
      message: expect.stringMatching(/cannot be reached .*check the network/),
    });
    const without = await start();
    expect((await without.app.inject('/admin/hub/models?search=tiny')).statusCode).toBe(501);
  });

  it('is for admins alone', async () => {
    const { secrets, call } = await startWithKeys(
      { plain: {}, boss: { admin: true } },
      { downloads: downloads() },
    );
    const before = hub.searches.length;
    expect((await call(secrets.plain, '/admin/hub/models?search=tiny')).statusCode).toBe(403);
    expect((await call(undefined, '/admin/hub/models/ann/tiny-GGUF')).statusCode).toBe(401);
    expect(hub.searches.length).toBe(before);
    expect((await call(secrets.boss, '/admin/hub/models?search=tiny')).statusCode).toBe(200);
  });
});
