import { request as httpRequest } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { startBatchServer } from '../../../test/support/batch-server.ts';
import { eventually } from '../../../test/support/eventually.ts';
import { start } from '../../../test/support/keyed-server.ts';

const json = { 'content-type': 'application/json' };

interface Outcome {
  readonly status: number;
  readonly connection: string | undefined;
  readonly body: Record<string, unknown>;
}

/** A request whose body is sent piece by piece. */
function upload(url: string, headers: Record<string, string>) {
  const request = httpRequest(url, { method: 'POST', agent: false, headers });
  const outcome = new Promise<Outcome>((resolve, reject) => {
    request.once('error', reject);
    request.once('response', (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (data: string) => {
        text += data;
      });
      response.once('end', () => {
        const { statusCode: status = 0, headers: sent } = response;
        resolve({ status, connection: sent.connection, body: JSON.parse(text) as Outcome['body'] });
      });
    });
  });
  const closed = new Promise<void>((resolve) => request.once('close', () => resolve()));
  request.on('error', () => {});
  return { request, outcome, closed };
}

describe('a request body', () => {
  it('may take longer than the time in which it must not stall, while it flows', async () => {
    const server = await start({ settings: { bodyStallMs: 1000 } });
    expect(server.app.server.requestTimeout).toBe(0);
    const { request, outcome } = upload(`${await server.listen()}/v1/completions`, json);
    const prompt = 'a'.repeat(32 * 1024);
    request.write('{"max_tokens":1,"prompt":"Hello","user":"');
    for (let piece = 0; piece < 25; piece++) {
      request.write(prompt);
      await sleep(100);
    }
    request.end('"}');
    // All of it was read: what it says is another thing.
    expect((await outcome).body).not.toMatchObject({ error: { code: 'request_stalled' } });
  });

  it.each([
    ['/v1/chat/completions', { error: { type: 'timeout_error', code: 'request_stalled' } }],
    ['/v1/messages', { type: 'error', error: { type: 'timeout_error' } }],
  ])('that stalls is answered with 408 in the shape of its API: %s', async (path, body) => {
    const server = await start({ settings: { bodyStallMs: 200 } });
    const { request, outcome, closed } = upload(`${await server.listen()}${path}`, json);
    request.write('{"messages":');
    expect(await outcome).toMatchObject({ status: 408, connection: 'close', body });
    await closed;
  });

  it('of a file that stalls leaves no file', async () => {
    const { server, secrets, call } = await withFiles();
    const { request, outcome } = upload(`${await server.listen()}/v1/files`, {
      authorization: `Bearer ${secrets.mine}`,
      'content-type': 'multipart/form-data; boundary=b',
    });
    request.write('--b\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\nsome');
    expect(await outcome).toMatchObject({ status: 408, body: { error: { code: 'request_stalled' } } });
    expect((await call('mine', 'GET', '/v1/files')).json()).toMatchObject({ data: [] });
  });

  it.each([
    [
      '/v1/files',
      'multipart/form-data; boundary=b',
      '--b\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\nsome',
    ],
    ['/v1/chat/completions', 'application/json', '{"messages":'],
  ])('whose client leaves counts as a client that left: %s', async (path, type, beginning) => {
    const { server, secrets } = await startBatchServer({ mine: {} });
    const arrived = new Promise((resolve) =>
      server.app.server.once('request', (message) => message.once('data', resolve)),
    );
    const { request, outcome } = upload(`${await server.listen()}${path}`, {
      authorization: `Bearer ${secrets.mine}`,
      'content-type': type,
    });
    request.write(beginning);
    await arrived;
    request.destroy();
    await expect(outcome).rejects.toThrow();
    const errors = async () =>
      (await server.app.inject('/metrics')).body.match(/^chairlift_\w*errors\w*\{.*$/gm);
    await eventually(async () =>
      expect(await errors()).toEqual([expect.stringContaining('kind="client_left"} 1')]),
    );
  });

  it('that comes after its refusal is not waited for without end', async () => {
    const server = await start({ settings: { bodyStallMs: 200 } });
    const { request, outcome, closed } = upload(`${await server.listen()}/v1/nothing`, json);
    request.write('{"messages":');
    expect((await outcome).status).toBe(404);
    await closed;
  });
});

async function withFiles() {
  const batches = await startBatchServer({ mine: {} }, { settings: { bodyStallMs: 200 } });
  return { ...batches, call: batches.call.bind(batches) };
}
