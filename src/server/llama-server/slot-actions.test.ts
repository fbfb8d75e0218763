// POST /slots/{id}, through the whole server with the embedded model, without a socket.

import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { start, startWithKeys } from '../../../test/support/keyed-server.ts';
import { fileNameProblem } from './slot-file-name.ts';

const folder = mkdtempSync(join(tmpdir(), 'chairlift-slots-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
beforeEach(() => {
  for (const name of readdirSync(folder)) rmSync(join(folder, name), { recursive: true });
});

const saving = { settings: { savesSlots: true, maxBatchSize: 3 }, pool: { slots: { folder } } };
const text = 'The fox went over the hill to see what was there, and came back. '.repeat(8);
const asked = { prompt: text, n_predict: 8, temperature: 0 };
const filename = 'fox.bin';

/** A server that one caller has to itself, without keys. */
async function alone(options: Parameters<typeof start>[0] = saving) {
  const { app } = await start(options);
  const post = async (url: string, payload?: object) => {
    const response = await app.inject({ method: 'POST', url, ...(payload && { payload }) });
    return { status: response.statusCode, body: response.json(), headers: response.headers };
  };
  return { app, post };
}

describe('POST /slots/{id}', () => {
  it('saves, erases and restores in llama-server’s shapes, and what is restored is not computed again', async () => {
    const { post } = await alone();
    const first = (await post('/completion', { ...asked, id_slot: 2 })).body;
    expect(first.id_slot).toBe(2);
    const saved = await post('/slots/2?action=save', { filename });
    const size = readFileSync(join(folder, 'anonymous', filename)).length;
    expect(saved).toMatchObject({ status: 200, body: { id_slot: 2, filename, n_written: size } });
    expect(saved.body.n_saved).toBeGreaterThan(96);
    expect(saved.body.n_saved % 32).toBe(0);
    expect(saved.body.timings.save_ms).toBeGreaterThan(0);
    const { n_saved } = saved.body;
    expect(await post('/slots/2?action=erase')).toMatchObject({
      status: 200,
      body: { id_slot: 2, n_erased: n_saved },
    });
    const restored = await post('/slots/0?action=restore', { filename });
    expect(restored).toMatchObject({
      status: 200,
      body: { id_slot: 0, filename, n_restored: n_saved, n_read: size },
    });
    expect(restored.body.timings.restore_ms).toBeGreaterThan(0);
    const again = (await post('/completion', { ...asked, id_slot: 2 })).body;
    expect(again.content).toBe(first.content);
    expect(again.timings.cache_n).toBeGreaterThan(96);
    // Without a restore there is nothing of it.
    await post('/slots/2?action=erase');
    const unnamed = (await post('/completion', asked)).body;
    expect([unnamed.timings.cache_n, unnamed.id_slot]).toEqual([0, 0]);
  });

  it('knows the slot of a request by any protocol, and the lowest of one that names none', async () => {
    const { post } = await alone();
    const messages = [{ role: 'user', content: text }];
    const [chat, message] = await Promise.all([
      post('/v1/chat/completions', { messages, id_slot: 1, max_tokens: 8 }),
      post('/v1/messages', {
        messages: [{ role: 'user', content: `No. ${text}` }],
        id_slot: 2,
        max_tokens: 8,
      }),
    ]);
    expect([chat.status, message.status]).toEqual([200, 200]);
    expect(chat.headers['x-chairlift-warning']).toBeUndefined();
    for (const slot of [1, 2]) {
      expect((await post(`/slots/${slot}?action=save`, { filename })).status, `${slot}`).toBe(200);
    }
    expect((await post('/slots/0?action=save', { filename })).body.error.code).toBe('slot_empty');
    await post('/v1/completions', { prompt: text, max_tokens: 8 });
    expect((await post('/slots/0?action=save', { filename })).status).toBe(200);
    await post('/slots/1?action=erase');
    await post('/v1/responses', { input: `Maybe. ${text}`, id_slot: 1, max_output_tokens: 8 });
    expect((await post('/slots/1?action=save', { filename })).status).toBe(200);
  });

  it('is answered 501 as by llama-server where nothing is saved, and id_slot has no effect there', async () => {
    const { post } = await alone({});
    for (const action of ['save', 'restore', 'erase', 'fold']) {
      const { status, body } = await post(`/slots/1?action=${action}`, { filename });
      expect([status, body.error.type]).toEqual([501, 'not_supported_error']);
      expect(body.error.message).toContain('--slot-save-path');
    }
    const { status, headers, body } = await post('/completion', { ...asked, id_slot: 99 });
    expect([status, headers['x-chairlift-warning'], body.id_slot]).toEqual([200, undefined, -1]);
  });

  it('is answered 501 where the cache is another machine’s', async () => {
    const server = await start(saving);
    Object.assign(server.pool.engine, { actOnSlot: undefined });
    const url = '/slots/1?action=erase';
    const response = await server.app.inject({ method: 'POST', url });
    expect([response.statusCode, response.json().error.type]).toEqual([501, 'not_supported_error']);
  });

  it('refuses what it cannot do with the reason', async () => {
    const { post } = await alone();
    await post('/completion', { ...asked, id_slot: 1 });
    const refused = async (url: string, body?: object) => {
      const { status, body: answer } = await post(url, body);
      return `${status} ${answer.error.code} ${answer.error.param}`;
    };
    const save = '/slots/1?action=save';
    expect(await refused('/slots/1?action=fold', { filename })).toBe('400 invalid_value action');
    expect(await refused('/slots/1', { filename })).toBe('400 invalid_value action');
    for (const id of ['3', '-1', 'one', '1.5', '99999999999']) {
      expect(await refused(`/slots/${id}?action=save`, { filename }), id).toBe('400 invalid_value id_slot');
    }
    expect(await refused(save)).toBe('400 missing_required_parameter filename');
    expect(await refused(save, { filename: 7 })).toBe('400 invalid_type filename');
    expect(await refused(save, { filename: '../other/one' })).toBe('400 invalid_value filename');
    expect(await refused('/slots/1?action=restore', { filename })).toBe('404 slot_not_found null');
    expect(await refused('/slots/0?action=save', { filename })).toBe('400 slot_empty null');
    expect(await refused(`${save}&model=nothing`, { filename })).toBe('404 model_not_found model');
    expect(await refused('/completion', { ...asked, id_slot: 3 })).toBe('400 invalid_value id_slot');
    expect(await refused('/completion', { ...asked, id_slot: -2 })).toBe('400 invalid_value id_slot');
    // Nothing was begun.
    expect(readdirSync(folder)).toEqual([]);
    expect((await post(save, { filename })).status).toBe(200);
    writeFileSync(join(folder, 'anonymous', filename), 'no slot at all');
    expect(await refused('/slots/1?action=restore', { filename })).toBe('400 slot_damaged null');
    expect((await post('/completion', { ...asked, id_slot: -1 })).status).toBe(200);
  });

  it('says so where the folder cannot be written to', async () => {
    const file = join(folder, 'file');
    writeFileSync(file, '');
    const { post } = await alone({ ...saving, pool: { slots: { folder: join(file, 'below') } } });
    await post('/completion', { ...asked, id_slot: 1 });
    const { status, body } = await post('/slots/1?action=save', { filename });
    expect([status, body.error.code]).toEqual([500, 'slot_failed']);
    expect((await post('/slots/1?action=restore', { filename })).body.error.code).toBe('slot_failed');
    // Where that is, is told to nobody.
    expect(body.error.message).toMatch(/ENOTDIR|EEXIST/);
    expect(body.error.message).not.toContain('/');
  });

  it('has slots and files of their own for every key', async () => {
    const { call, secrets } = await startWithKeys({ ann: {}, bob: {} }, saving);
    expect((await call(undefined, '/slots/1?action=save', { filename })).statusCode).toBe(401);
    const { ann, bob } = secrets;
    await call(ann, '/completion', { ...asked, id_slot: 1 });
    expect((await call(ann, '/slots/1?action=save', { filename })).statusCode).toBe(200);
    expect((await call(bob, '/slots/1?action=save', { filename })).statusCode).toBe(400);
    expect((await call(bob, '/slots/1?action=restore', { filename })).statusCode).toBe(404);
    expect((await call(bob, '/slots/1?action=erase', {})).json()).toMatchObject({ n_erased: 0 });
    await call(bob, '/completion', { ...asked, prompt: `Or ${text}`, id_slot: 1 });
    expect((await call(bob, '/slots/1?action=save', { filename })).statusCode).toBe(200);
    // Ann's is as it was.
    expect((await call(ann, '/slots/1?action=erase', {})).json().n_erased).toBeGreaterThan(0);
    expect((await call(ann, '/slots/0?action=restore', { filename })).statusCode).toBe(200);
    const again = await call(ann, '/completion', asked);
    expect(again.json().timings.cache_n).toBeGreaterThan(0);
  });

  it('shows the number under which a sequence leaves its prefix', async () => {
    const { app, post } = await alone();
    const running = post('/completion', { ...asked, id_slot: 2, n_predict: 1500, ignore_eos: true });
    const busy = async () =>
      ((await app.inject('/slots')).json() as { id: number; is_processing: boolean }[])
        .filter((slot) => slot.is_processing)
        .map(({ id }) => id);
    await expect.poll(busy, { interval: 5, timeout: 5000 }).toEqual([2]);
    await running;
  });
});

describe('the name of a file', () => {
  it('is one that every system takes, and leads nowhere else', () => {
    const long = 'ü'.repeat(127);
    const good = ['slot1.bin', 'a', 'two words', 'ä ö.bin', '日本', long, '-x', 'a.b.c', 'con1', 'annul.x'];
    for (const name of good) expect(fileNameProblem(name), name).toBeUndefined();
    const separated = ['a/b', '/a', 'a\\b', 'C:x', '..', 'a..b', 'a\uff0fb'];
    const odd = ['', '.', '.hidden', ' a', 'a ', 'a.', 'a*', 'a?', '<a', 'a|b', 'NUL', 'com1.bin'];
    const unseen = ['a\0b', 'a\nb', 'a\u202eb', 'a\ufeff', '\ud800'];
    for (const name of [...separated, ...odd, ...unseen, `${long}xx`]) {
      expect(fileNameProblem(name), JSON.stringify(name)).toBeDefined();
    }
  });
});
