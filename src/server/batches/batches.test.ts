// Files and batches through the routes, with the embedded model.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { type Batch, inputLine, startBatchServer } from '../../../test/support/batch-server.ts';
import { opened } from '../../../test/support/opened.ts';
import { waitUntil } from '../../../test/support/server-process.ts';
import { fileSchema } from '../files/file-object.ts';
import { batchSchema } from './batch-object.ts';

const messages = [{ role: 'user', content: 'Hello, who are you?' }];
const short = { messages, max_tokens: 4, temperature: 0 };

/** Holds up requests in front of their model, all but the first few, until it is opened. */
class Gate {
  readonly #free: number;
  #open: () => void = () => {};
  readonly #opened = new Promise<void>((resolve) => {
    this.#open = resolve;
  });
  #came = 0;
  /** At the gate. */
  held = 0;
  mostHeld = 0;

  constructor(free: number) {
    this.#free = free;
    opened.push(() => this.#open());
  }

  pass = async (): Promise<void> => {
    if (++this.#came <= this.#free) return;
    this.held++;
    this.mostHeld = Math.max(this.mostHeld, this.held);
    await this.#opened;
    this.held--;
  };

  open(): void {
    this.#open();
  }
}

const several = (count: number, body: object) =>
  Array.from({ length: count }, (_, n) => inputLine(`line-${n}`, body));

describe('a batch', () => {
  it('answers each line as the request alone, and counts its usage', async () => {
    const server = await startBatchServer({ mine: {} });
    const bodies = Array.from({ length: 12 }, (_, n) => ({
      messages: [{ role: 'user', content: `Hello, number ${n}` }],
      max_tokens: 3 + (n % 4),
      temperature: 0.8,
      seed: n,
    }));
    const { id, status } = await server.submit(
      'mine',
      bodies.map((body, n) => inputLine(`line-${n}`, body)),
    );
    expect(status).toBe('validating');
    const batch = await server.ended('mine', id);
    expect(batch).toMatchObject({
      status: 'completed',
      request_counts: { total: 12, completed: 12, failed: 0 },
      error_file_id: null,
      errors: null,
    });
    expect(batchSchema.parse(batch)).toEqual(batch);
    const file = (await server.call('mine', 'GET', `/v1/files/${batch.output_file_id}`)).json();
    expect(fileSchema.parse(file)).toMatchObject({ purpose: 'batch_output', filename: `${id}_output.jsonl` });
    const lines = await server.read('mine', batch.output_file_id);
    expect(lines.map((line) => line.custom_id)).toEqual(bodies.map((_, n) => `line-${n}`));
    expect(await server.usageOf('mine')).toBe(12);
    for (const [n, body] of bodies.entries()) {
      const alone = (await server.call('mine', 'POST', '/v1/chat/completions', body)).json();
      expect(lines[n]).toMatchObject({
        error: null,
        response: {
          status_code: 200,
          request_id: `${id}:${n + 1}`,
          body: { choices: alone.choices, model: alone.model },
        },
      });
    }
  });

  it('keeps failing lines apart from the rest', async () => {
    const server = await startBatchServer({ mine: {} });
    const { id } = await server.submit('mine', [
      inputLine('good', short),
      inputLine('bad', { ...short, temperature: -1 }),
      inputLine('streamed', { ...short, stream: true }),
    ]);
    const batch = await server.ended('mine', id);
    expect(batch).toMatchObject({
      status: 'completed',
      request_counts: { total: 3, completed: 1, failed: 2 },
    });
    expect((await server.read('mine', batch.output_file_id)).map((line) => line.custom_id)).toEqual(['good']);
    const [bad, streamed] = await server.read('mine', batch.error_file_id);
    expect(bad).toMatchObject({
      custom_id: 'bad',
      error: null,
      response: { status_code: 400, body: { error: { param: 'temperature' } } },
    });
    expect(streamed).toMatchObject({
      custom_id: 'streamed',
      response: { status_code: 400, body: { error: { param: 'stream' } } },
    });
  });
});

describe('the input of a batch', () => {
  const line = (customId: unknown, extra: object = {}) =>
    JSON.stringify({
      custom_id: customId,
      method: 'POST',
      url: '/v1/chat/completions',
      body: short,
      ...extra,
    });

  it('is refused with the numbers of all lines that are wrong, and nothing runs', async () => {
    const server = await startBatchServer({ mine: {} });
    const { id } = await server.submit('mine', [
      line('good'),
      '',
      '{"custom_id": "cut',
      line(undefined),
      line('good'),
      line('get', { method: 'GET' }),
      line('elsewhere', { url: '/v1/embeddings' }),
      line('model', { body: { ...short, model: 'nobody' } }),
      line('body', { body: 'text' }),
      '[]',
      `{"custom_id":"deep","body":${'['.repeat(2000)}`,
    ]);
    const batch = await server.ended('mine', id);
    expect(batch).toMatchObject({
      status: 'failed',
      request_counts: { total: 0, completed: 0, failed: 0 },
      output_file_id: null,
    });
    expect(batch.failed_at).toEqual(expect.any(Number));
    expect(batch.errors?.data.map((one) => [one.line, one.code])).toEqual([
      [3, 'invalid_json_line'],
      [4, 'missing_required_parameter'],
      [5, 'duplicate_custom_id'],
      [6, 'invalid_method'],
      [7, 'invalid_url'],
      [8, 'model_not_found'],
      [9, 'missing_required_parameter'],
      [10, 'invalid_json_line'],
      [11, 'invalid_json_line'],
    ]);
    expect(await server.usageOf('mine')).toBe(0);
    const left = await server.database.tables.selectFrom('batch_line').selectAll().execute();
    expect(left).toEqual([]);
  });

  it('may have N lines and no more', async () => {
    const server = await startBatchServer({ mine: {} }, { settings: { maxBatchLines: 3 } });
    const fits = await server.submit('mine', several(3, short));
    expect(await server.ended('mine', fits.id)).toMatchObject({ status: 'completed' });
    const tooMany = await server.submit('mine', several(4, short));
    const { errors } = await server.ended('mine', tooMany.id);
    expect(errors?.data).toMatchObject([{ code: 'too_many_tasks', line: 4 }]);
    const empty = await server.submit('mine', ['', ' ']);
    expect((await server.ended('mine', empty.id)).errors?.data).toMatchObject([{ code: 'empty_file' }]);
  });

  it('may be deleted once it was read; before, the batch fails and says why', async () => {
    const server = await startBatchServer({ mine: {} });
    const order = {
      endpoint: '/v1/chat/completions',
      inputFileId: 'file-gone',
      metadata: undefined,
      expiresMs: Date.now() + 1e6,
      outputSeconds: undefined,
    };
    const [key] = await server.keyStore.list();
    const early = await server.batches.store.create(key?.id ?? '', order, Date.now());
    expect(await server.ended('mine', early.id)).toMatchObject({
      status: 'failed',
      errors: { data: [{ code: 'file_not_found', param: 'input_file_id' }] },
    });
    const late = await server.submit('mine', several(5, short));
    await server.until('mine', late.id, ({ status }) => status !== 'validating');
    await server.call('mine', 'DELETE', `/v1/files/${late.input_file_id}`);
    expect(await server.ended('mine', late.id)).toMatchObject({
      status: 'completed',
      request_counts: { completed: 5 },
    });
  });

  it.each([
    [{ endpoint: '/v1/rerank' }, 'endpoint'],
    [{ completion_window: '1h' }, 'completion_window'],
    [{ input_file_id: undefined }, 'input_file_id'],
    [{ metadata: { a: 1 } }, 'metadata.a'],
  ])('is not looked at where the order says %j', async (wrong, param) => {
    const server = await startBatchServer({ mine: {} });
    const order = { input_file_id: 'file-1', endpoint: '/v1/completions', completion_window: '24h' };
    const answer = await server.call('mine', 'POST', '/v1/batches', { ...order, ...wrong });
    expect([answer.statusCode, answer.json().error.param]).toEqual([400, param]);
  });

  it('must be a file of the key', async () => {
    const server = await startBatchServer({ mine: {}, other: {} });
    const { id } = (await server.upload('mine', 'text')).json<{ id: string }>();
    const order = { input_file_id: id, endpoint: '/v1/completions', completion_window: '24h' };
    const answer = await server.call('other', 'POST', '/v1/batches', order);
    expect([answer.statusCode, answer.json().error.code]).toEqual([404, 'file_not_found']);
  });
});

describe('a batch under way', () => {
  it('is cancelled at once; what was done stays', async () => {
    const loading = new Gate(2).pass;
    const settings = { batchConcurrency: 2 };
    const server = await startBatchServer({ mine: {} }, { settings, pool: { loading } });
    const { id } = await server.submit('mine', [
      ...several(2, short),
      inputLine('a', short),
      inputLine('b', short),
    ]);
    await server.until('mine', id, ({ request_counts: counts }) => counts.completed === 2);
    const asked = await server.call('mine', 'POST', `/v1/batches/${id}/cancel`);
    expect(asked.json<Batch>().status).toBe('cancelling');
    const batch = await server.ended('mine', id);
    expect(batch).toMatchObject({
      status: 'cancelled',
      request_counts: { total: 4, completed: 2, failed: 0 },
      cancelled_at: expect.any(Number),
    });
    const done = await server.read('mine', batch.output_file_id);
    expect(done.map((one) => one.custom_id)).toEqual(['line-0', 'line-1']);
    expect(await server.read('mine', batch.error_file_id)).toMatchObject([
      { custom_id: 'a', response: null, error: { code: 'batch_cancelled' } },
      { custom_id: 'b', response: null, error: { code: 'batch_cancelled' } },
    ]);
    expect(await server.usageOf('mine')).toBe(2);
    const again = await server.call('mine', 'POST', `/v1/batches/${id}/cancel`);
    expect([again.statusCode, again.json().error.code]).toEqual([400, 'not_running']);
  });

  it('expires with what was done', async () => {
    const server = await startBatchServer({ mine: {} }, { pool: { loading: new Gate(1).pass } });
    const { id } = await server.submit('mine', [inputLine('done', short), inputLine('never', short)]);
    await server.until('mine', id, ({ request_counts: counts }) => counts.completed === 1);
    await server.database.change((tables) =>
      tables.updateTable('batch').set({ expires_ms: Date.now() }).where('id', '=', id).execute(),
    );
    const batch = await server.ended('mine', id);
    expect(batch).toMatchObject({ status: 'expired', request_counts: { total: 2, completed: 1 } });
    expect(await server.read('mine', batch.output_file_id)).toMatchObject([{ custom_id: 'done' }]);
    expect(await server.read('mine', batch.error_file_id)).toMatchObject([
      { custom_id: 'never', error: { code: 'batch_expired' } },
    ]);
  });

  it('fails where its key is revoked, and keeps what was done', async () => {
    const server = await startBatchServer({ mine: {}, other: {} }, { pool: { loading: new Gate(1).pass } });
    const { id } = await server.submit('mine', [inputLine('done', short), inputLine('never', short)]);
    await server.until('mine', id, ({ request_counts: counts }) => counts.completed === 1);
    const key = (await server.keyStore.list()).find(({ name }) => name === 'mine');
    await server.keyStore.revoke('mine', Date.now());
    const find = () => server.batches.store.find(key?.id ?? '', id);
    await waitUntil(async () => (await find())?.state === 'failed');
    expect(await find()).toMatchObject({ completed: 1, errors: [{ code: 'key_revoked' }] });
    expect((await server.call('mine', 'GET', `/v1/batches/${id}`)).statusCode).toBe(401);
  });

  it('waits where its key’s limits say so, and takes none of the minutes of who asks now', async () => {
    const limits = { requestsPerMinute: 3, dailyTokens: 1_000_000 };
    const server = await startBatchServer({ mine: { limits } });
    const { id } = await server.submit('mine', several(4, short));
    await server.until('mine', id, ({ request_counts: counts }) => counts.completed === 3);
    for (let n = 0; n < 3; n++) {
      expect((await server.call('mine', 'POST', '/v1/chat/completions', short)).statusCode).toBe(200);
    }
    const batch = await server.find('mine', id);
    expect(batch).toMatchObject({ status: 'in_progress', request_counts: { completed: 3, failed: 0 } });
    const answer = await server.call('mine', 'POST', '/v1/chat/completions', short);
    expect(answer.statusCode).toBe(429);
    // Three for the lines and three for who asked now; what was refused costs nothing.
    const used =
      Number(answer.headers['x-ratelimit-limit-daily-tokens']) -
      Number(answer.headers['x-ratelimit-remaining-daily-tokens']);
    const rows = await server.usage.report({});
    expect(used).toBe(rows.reduce((sum, row) => sum + row.promptTokens + row.completionTokens, 0));
    expect(rows.reduce((sum, row) => sum + row.requests, 0)).toBe(6);
  });

  it('runs at LOW priority whatever the key, a few lines at once', async () => {
    const gate = new Gate(0);
    const options = { settings: { batchConcurrency: 3 }, pool: { loading: gate.pass } };
    const server = await startBatchServer({ fast: { tier: 'high' } }, options);
    const { id } = await server.submit('fast', several(8, short));
    await waitUntil(() => gate.held === 3);
    gate.open();
    expect(await server.ended('fast', id)).toMatchObject({ status: 'completed' });
    expect(gate.mostHeld).toBe(3);
    const { data } = (await server.call('fast', 'GET', '/requests')).json<{ data: { tier: string }[] }>();
    expect(data.map(({ tier }) => tier)).toEqual(Array.from({ length: 8 }, () => 'low'));
  });

  it('runs its share of the lines that all gateways of a fleet may run at once', async () => {
    const gate = new Gate(0);
    const options = { settings: { batchConcurrency: 6 }, pool: { loading: gate.pass } };
    const server = await startBatchServer({ mine: {} }, options, undefined, (total) => total / 3);
    const { id } = await server.submit('mine', several(8, short));
    await waitUntil(() => gate.held === 2);
    await sleep(100);
    gate.open();
    expect(await server.ended('mine', id)).toMatchObject({ status: 'completed' });
    expect(gate.mostHeld).toBe(2);
  });

  it('runs one line alone while a client waits for a first token', async () => {
    const gate = new Gate(0);
    const server = await startBatchServer({ mine: {} }, { pool: { loading: gate.pass } });
    const asked = server.call('mine', 'POST', '/v1/chat/completions', short);
    asked.catch(() => {});
    await waitUntil(() => gate.held === 1);
    const { id } = await server.submit('mine', several(5, short));
    await waitUntil(() => gate.held === 2);
    // Long enough for more to have come.
    await sleep(100);
    expect(gate.mostHeld).toBe(2);
    gate.open();
    expect((await asked).statusCode).toBe(200);
    expect(await server.ended('mine', id)).toMatchObject({ status: 'completed' });
  });

  it('goes on where it was when the server comes back, answering each line once', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'chairlift-batches-'));
    opened.push(() => rmSync(folder, { recursive: true }));
    const path = join(folder, 'test.db');
    const settings = { batchConcurrency: 2 };
    const first = await startBatchServer({ mine: {} }, { settings }, path);
    const { id } = await first.submit('mine', several(40, { ...short, max_tokens: 30, ignore_eos: true }));
    await first.until('mine', id, ({ request_counts: counts }) => counts.completed >= 3);
    for (const close of opened.splice(1).reverse()) await close();
    const second = await startBatchServer({ other: {} }, { settings: { batchConcurrency: 8 } }, path);
    const again = { ...second, secrets: first.secrets };
    const server = Object.assign(Object.create(Object.getPrototypeOf(first)), again) as typeof first;
    const before = await server.find('mine', id);
    expect(before.request_counts.completed).toBeGreaterThanOrEqual(3);
    const batch = await server.ended('mine', id);
    expect(batch.request_counts).toEqual({ total: 40, completed: 40, failed: 0 });
    const lines = await server.read('mine', batch.output_file_id);
    expect(lines.map((line) => line.custom_id)).toEqual(Array.from({ length: 40 }, (_, n) => `line-${n}`));
    expect(await server.usageOf('mine')).toBe(40);
  });
});

describe('batches', () => {
  it('are nothing to another key, and come in pages', async () => {
    const server = await startBatchServer({ mine: {}, other: {} });
    const ids: string[] = [];
    for (let n = 0; n < 3; n++) ids.push((await server.submit('mine', several(1, short))).id);
    ids.sort();
    for (const id of ids) await server.ended('mine', id);
    expect((await server.call('other', 'GET', '/v1/batches')).json()).toMatchObject({ data: [] });
    expect((await server.call('other', 'GET', `/v1/batches/${ids[0]}`)).statusCode).toBe(404);
    expect((await server.call('other', 'POST', `/v1/batches/${ids[0]}/cancel`)).statusCode).toBe(404);
    const page = (await server.call('mine', 'GET', `/v1/batches?limit=2`)).json();
    expect(page).toMatchObject({ has_more: true, last_id: ids[1], data: [{ id: ids[2] }, { id: ids[1] }] });
    const rest = (await server.call('mine', 'GET', `/v1/batches?limit=2&after=${ids[1]}`)).json();
    expect(rest).toMatchObject({ has_more: false, data: [{ id: ids[0] }] });
  });

  it('take every endpoint', async () => {
    const server = await startBatchServer({ mine: {} });
    for (const [endpoint, body, object] of [
      ['/v1/completions', { prompt: 'Once', max_tokens: 3 }, 'text_completion'],
      ['/v1/embeddings', { input: 'a text' }, 'list'],
      ['/v1/responses', { input: 'Hello', max_output_tokens: 3 }, 'response'],
    ] as const) {
      const { id } = await server.submit('mine', [inputLine('only', body, endpoint)], endpoint);
      const batch = await server.ended('mine', id);
      expect(batch.status).toBe('completed');
      expect(await server.read('mine', batch.output_file_id)).toMatchObject([
        { response: { status_code: 200, body: { object } } },
      ]);
    }
    expect(await server.usageOf('mine')).toBe(3);
  });
});
