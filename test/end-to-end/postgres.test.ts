// Two servers, as users start them, on one Postgres database: keys, limits, usage and stored responses are one.

import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { missingPostgres, PostgresServer } from '../support/postgres.ts';
import { ServerHome, type ServerProcess, waitUntil } from '../support/server-process.ts';

const title = missingPostgres === undefined ? 'two servers' : `two servers (skipped: ${missingPostgres})`;

describe.skipIf(missingPostgres !== undefined)(title, () => {
  let postgres: PostgresServer;
  beforeAll(async () => {
    postgres = await PostgresServer.start();
  });
  afterAll(() => postgres?.stop());

  /** On a database of their own, until the test has ended. */
  async function startTwo(finished: typeof onTestFinished = onTestFinished) {
    const home = new ServerHome(await postgres.createDatabase());
    finished(() => home.close());
    const [one, two] = await Promise.all([home.start(), home.start()]);
    return { home, one, two };
  }

  function post(server: ServerProcess, key: string, path: string, body: object): Promise<Response> {
    return fetch(server.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  }

  const complete = async (server: ServerProcess, key: string, options: object = {}) => {
    const answer = await post(server, key, '/v1/completions', { prompt: 'Once', max_tokens: 2, ...options });
    await answer.arrayBuffer();
    return answer;
  };

  const usage = (home: ServerHome) =>
    JSON.parse(home.run('usage', '--json')) as {
      keyName: string;
      requests: number;
      completionTokens: number;
    }[];

  // Side by side: one of them waits for a quarter of a minute until a server is taken for dead.
  it.concurrent('take each other’s keys, share their limits, and count together', async ({
    expect,
    onTestFinished,
  }) => {
    const { home, one, two } = await startTwo(onTestFinished);
    const key = home.createKey('ann', 'normal', '--rpm', '6');
    const startMs = performance.now();
    const statuses: number[] = [];
    for (let n = 0; n < 5; n++) {
      for (const server of [one, two]) statuses.push((await complete(server, key)).status);
    }
    const freedMeanwhile = Math.ceil((performance.now() - startMs) / 10_000);
    expect(statuses.slice(0, 6)).toEqual(Array(6).fill(200));
    expect(statuses.filter((status) => status === 200).length).toBeLessThanOrEqual(6 + freedMeanwhile);
    for (const server of [one, two]) {
      server.signal('SIGTERM');
      expect(await server.exited).toBe(0);
    }
    const served = statuses.filter((status) => status === 200).length;
    expect(usage(home)).toMatchObject([{ keyName: 'ann', requests: served, completionTokens: 2 * served }]);
    home.run('keys', 'revoke', 'ann');
    expect(home.run('keys', 'list')).toMatch(/^No live keys in postgres:/);
  });

  it.concurrent('go on with each other’s conversations', async ({ expect, onTestFinished }) => {
    const { home, one, two } = await startTwo(onTestFinished);
    const key = home.createKey('ann', 'normal');
    const ask = async (server: ServerProcess, body: object) => {
      const answer = await post(server, key, '/v1/responses', { max_output_tokens: 4, ...body });
      return { status: answer.status, body: (await answer.json()) as { id: string } };
    };
    const first = await ask(one, { input: 'Tell me a story.' });
    expect(first.status).toBe(200);
    const next = await ask(two, { input: 'Go on.', previous_response_id: first.body.id });
    expect(next.status).toBe(200);
    const gone = await ask(one, { input: 'Go on.', previous_response_id: 'resp_nowhere' });
    expect(gone.status).toBe(400);
  });

  it.concurrent('give the places of one that was killed to the other', async ({ expect, onTestFinished }) => {
    const { home, one, two } = await startTwo(onTestFinished);
    const key = home.createKey('ann', 'normal', '--max-concurrent', '1');
    const endless = { prompt: 'Once', max_tokens: 3000, ignore_eos: true, stream: true };
    const held = await post(one, key, '/v1/completions', endless);
    expect((await complete(two, key)).status).toBe(429);
    await one.stop();
    await held.text().catch(() => undefined);
    await waitUntil(async () => (await complete(two, key)).status === 200);
  });

  it('serve on while the database is away, and lose no usage', async () => {
    const { home, one, two } = await startTwo();
    const key = home.createKey('ann', 'normal', '--rpm', '1000');
    let served = 0;
    const serve = async (server: ServerProcess) => {
      expect((await complete(server, key)).status).toBe(200);
      served++;
    };
    for (const server of [one, two]) await serve(server);
    await postgres.halt();
    for (let n = 0; n < 5; n++) for (const server of [one, two]) await serve(server);
    const unknown = await complete(one, 'cl-nobody');
    expect([unknown.status, unknown.headers.get('retry-after')]).toEqual([503, '5']);
    expect(one.log()).toContain('keeps to its share of the limits');
    await postgres.go();
    await waitUntil(async () => (await complete(one, 'cl-nobody')).status === 401);
    for (const server of [one, two]) await serve(server);
    for (const server of [one, two]) {
      server.signal('SIGTERM');
      expect(await server.exited).toBe(0);
    }
    expect(usage(home)).toMatchObject([{ keyName: 'ann', requests: served }]);
  });

  it('say what is wrong where there is no database, in one line', async () => {
    const home = new ServerHome(postgres.address('nowhere'));
    onTestFinished(() => home.remove());
    expect(() => home.run('keys', 'list')).toThrow(/nowhere does not exist\. Make it/);
  });
});
