// /v1/files through the routes.

import { request } from 'node:http';
import { describe, expect, it } from 'vitest';
import { startBatchServer } from '../../../test/support/batch-server.ts';
import { waitUntil } from '../../../test/support/server-process.ts';

interface FileObject {
  readonly id: string;
  readonly bytes: number;
  readonly created_at: number;
  readonly expires_at?: number;
}

const codeOf = (answer: { json(): { error: { code: string } } }) => answer.json().error.code;

describe('a file', () => {
  it('comes back byte for byte, however large, and is gone once deleted', async () => {
    const server = await startBatchServer({ mine: {} });
    const content = Array.from({ length: 60_000 }, (_, n) => `line ${n} – ü`).join('\n');
    const made = await server.upload('mine', content);
    const file = made.json<FileObject>();
    expect(file).toMatchObject({
      object: 'file',
      bytes: Buffer.byteLength(content),
      filename: 'input.jsonl',
      purpose: 'batch',
      status: 'processed',
    });
    expect((await server.call('mine', 'GET', `/v1/files/${file.id}`)).json()).toEqual(file);
    const read = await server.call('mine', 'GET', `/v1/files/${file.id}/content`);
    expect(read.headers['content-length']).toBe(String(file.bytes));
    expect(read.body).toBe(content);
    expect((await server.call('mine', 'DELETE', `/files/${file.id}`)).json()).toEqual({
      id: file.id,
      object: 'file',
      deleted: true,
    });
    for (const method of ['GET', 'DELETE'] as const) {
      const gone = await server.call('mine', method, `/v1/files/${file.id}`);
      expect([gone.statusCode, codeOf(gone)]).toEqual([404, 'file_not_found']);
    }
  });

  it('is nothing to another key, an admin’s included', async () => {
    const server = await startBatchServer({ mine: {}, other: {}, boss: { admin: true } });
    const { id } = (await server.upload('mine', 'text')).json<FileObject>();
    for (const name of ['other', 'boss'] as const) {
      for (const [method, url] of [
        ['GET', `/v1/files/${id}`],
        ['GET', `/v1/files/${id}/content`],
        ['DELETE', `/v1/files/${id}`],
      ] as const) {
        expect((await server.call(name, method, url)).statusCode).toBe(404);
      }
      expect((await server.call(name, 'GET', '/v1/files')).json()).toMatchObject({ data: [] });
    }
    expect((await server.call('mine', 'GET', `/v1/files/${id}`)).statusCode).toBe(200);
  });

  it('goes by itself when it was asked to', async () => {
    const server = await startBatchServer({ mine: {} });
    const fields = {
      purpose: 'batch',
      'expires_after[anchor]': 'created_at',
      'expires_after[seconds]': '3600',
    };
    const file = (await server.upload('mine', 'text', fields)).json<FileObject>();
    expect(file.expires_at).toBe(file.created_at + 3600);
    await server.files.prune(Date.now() + 3_601_000);
    expect((await server.call('mine', 'GET', `/v1/files/${file.id}`)).statusCode).toBe(404);
    const rows = await server.database.tables.selectFrom('file_chunk').selectAll().execute();
    expect(rows).toEqual([]);
  });
});

describe('a list of files', () => {
  it('comes in pages, in either order, also where the last of a page was deleted', async () => {
    const server = await startBatchServer({ mine: {} });
    const ids: string[] = [];
    for (let n = 0; n < 5; n++) ids.push((await server.upload('mine', `file ${n}`)).json<FileObject>().id);
    ids.sort();
    const page = async (query: string) => {
      const { data, ...rest } = (await server.call('mine', 'GET', `/v1/files?${query}`)).json<{
        data: FileObject[];
        has_more: boolean;
      }>();
      return { ids: data.map(({ id }) => id), more: rest.has_more };
    };
    expect(await page('order=asc&limit=2')).toEqual({ ids: ids.slice(0, 2), more: true });
    await server.call('mine', 'DELETE', `/v1/files/${ids[1]}`);
    expect(await page(`order=asc&limit=3&after=${ids[1]}`)).toEqual({ ids: ids.slice(2), more: false });
    expect(await page('limit=1')).toEqual({ ids: ids.slice(4), more: true });
    expect(await page('purpose=batch_output')).toEqual({ ids: [], more: false });
    expect((await server.call('mine', 'GET', '/v1/files?limit=0')).statusCode).toBe(400);
  });
});

describe('an upload', () => {
  it.each([
    ['another purpose', { purpose: 'fine-tune' }, 'purpose'],
    ['a purpose of the server', { purpose: 'batch_output' }, 'purpose'],
    ['no purpose', {}, 'purpose'],
    ['an odd end', { purpose: 'batch', 'expires_after[seconds]': '5' }, 'expires_after.anchor'],
  ])('with %s is refused, and leaves nothing', async (_, fields, param) => {
    const server = await startBatchServer({ mine: {} });
    const answer = await server.upload('mine', 'text', fields);
    expect(answer.statusCode).toBe(400);
    expect(answer.json().error.param).toBe(param);
    expect((await server.call('mine', 'GET', '/v1/files')).json()).toMatchObject({ data: [] });
    await server.files.prune(Date.now());
    expect(await server.database.tables.selectFrom('file').selectAll().execute()).toEqual([]);
  });

  it('is refused where it is no form, has no file, or more than one', async () => {
    const server = await startBatchServer({ mine: {} });
    const json = await server.call('mine', 'POST', '/v1/files', { purpose: 'batch' });
    expect([json.statusCode, codeOf(json)]).toEqual([415, 'unsupported_media_type']);
    const type = { 'content-type': 'multipart/form-data; boundary=b' };
    const part = (name: string, more = '') =>
      `--b\r\ncontent-disposition: form-data; name="${name}"${more}\r\n\r\nbatch\r\n`;
    const without = await server.call('mine', 'POST', '/v1/files', `${part('purpose')}--b--\r\n`, type);
    expect([without.statusCode, codeOf(without)]).toEqual([400, 'missing_required_parameter']);
    const file = part('file', '; filename="a"');
    const two = await server.call('mine', 'POST', '/v1/files', `${file}${file}--b--\r\n`, type);
    expect(two.json().error.message).toContain('a file too many');
    const cut = await server.call('mine', 'POST', '/v1/files', file.slice(0, -4), type);
    expect(cut.statusCode).toBe(400);
    const odd = { 'content-type': 'multipart/form-data' };
    expect((await server.call('mine', 'POST', '/v1/files', 'text', odd)).statusCode).toBe(400);
    const chat = await server.call('mine', 'POST', '/v1/chat/completions', `${file}--b--\r\n`, type);
    expect([chat.statusCode, codeOf(chat)]).toEqual([400, 'invalid_json']);
  });

  it('does no harm where its form is broken off or garbled, wherever that is', async () => {
    const server = await startBatchServer({ mine: {} });
    const type = { 'content-type': 'multipart/form-data; boundary=b' };
    const form = `--b\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\ntext\r\n--b\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b--\r\n`;
    const forms = Array.from({ length: form.length - 4 }, (_, at) => form.slice(0, at));
    forms.push(
      '--b\r\n\r\n--b--',
      '--b--',
      `${form.slice(0, 90)}--b${form.slice(90)}`,
      `--b\r\n${'x'.repeat(100_000)}`,
    );
    for (const one of forms) {
      const { statusCode, body } = await server.call('mine', 'POST', '/v1/files', one, type);
      expect(statusCode, `${JSON.stringify(one)}: ${body}`).toBe(400);
    }
    expect((await server.call('mine', 'GET', '/v1/files')).json()).toMatchObject({ data: [] });
    expect((await server.call('mine', 'POST', '/v1/files', form, type)).statusCode).toBe(200);
  });

  it('is refused where it is too large, alone or with the key’s other files', async () => {
    const settings = { maxFileBytes: 400_000, maxKeyFileBytes: 700_000 };
    const server = await startBatchServer({ mine: {}, other: {} }, { settings });
    const text = (bytes: number) => 'x'.repeat(bytes);
    for (const bytes of [400_001, 2_000_000]) {
      const answer = await server.upload('mine', text(bytes));
      expect([answer.statusCode, codeOf(answer)]).toEqual([413, 'file_too_large']);
    }
    const first = await server.upload('mine', text(400_000));
    expect(first.statusCode).toBe(200);
    const second = await server.upload('mine', text(400_000));
    expect([second.statusCode, codeOf(second)]).toEqual([413, 'files_limit_exceeded']);
    expect((await server.upload('other', text(400_000))).statusCode).toBe(200);
    expect((await server.upload('mine', text(200_000))).statusCode).toBe(200);
    await server.call('mine', 'DELETE', `/v1/files/${first.json<FileObject>().id}`);
    expect((await server.upload('mine', text(400_000))).statusCode).toBe(200);
  });

  it('is answered over a socket, too, where it is too large, and leaves nothing where its client leaves', async () => {
    const settings = { maxFileBytes: 300_000 };
    const server = await startBatchServer({ mine: {} }, { settings });
    const url = new URL('/v1/files', await server.server.listen());
    const authorization = `Bearer ${server.secrets.mine}`;
    for (const bytes of [310_000, 5_000_000]) {
      const body = new FormData();
      body.append('file', new Blob(['x'.repeat(bytes)]), 'large.jsonl');
      body.append('purpose', 'batch');
      const answer = await fetch(url, { method: 'POST', headers: { authorization }, body });
      expect(answer.status).toBe(413);
    }
    const leaving = request(url, {
      method: 'POST',
      headers: {
        authorization,
        'content-type': 'multipart/form-data; boundary=b',
        'content-length': 290_000,
      },
    });
    leaving.on('error', () => {});
    leaving.write('--b\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n');
    leaving.write('x'.repeat(270_000));
    const rows = () => server.database.tables.selectFrom('file').select('bytes').execute();
    await waitUntil(async () => (await rows()).some(({ bytes }) => bytes > 0));
    leaving.destroy();
    await waitUntil(async () => (await rows()).every(({ bytes }) => bytes === 0));
    await server.files.prune(Date.now());
    expect(await rows()).toEqual([]);
  });

  it('is not taken from the page of another site unless that may ask', async () => {
    const origin = { origin: 'https://elsewhere.example' };
    const type = { 'content-type': 'multipart/form-data; boundary=b' };
    const form = `--b\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\ntext\r\n--b\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b--\r\n`;
    const closed = await startBatchServer({ mine: {} });
    const headers = { ...type, ...origin };
    const refused = await closed.server.app.inject({
      method: 'POST',
      url: '/v1/files',
      payload: form,
      headers,
    });
    expect([refused.statusCode, codeOf(refused)]).toEqual([403, 'origin_not_allowed']);
    const open = await startBatchServer({ mine: {} }, { settings: { corsOrigins: [origin.origin] } });
    const taken = await open.call('mine', 'POST', '/v1/files', form, headers);
    expect(taken.statusCode).toBe(200);
  });
});
