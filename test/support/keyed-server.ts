// Servers as the tests of the edge start them: closed after each test, or shared by the tests of a file that change nothing.

import { afterAll, beforeAll, beforeEach, expect } from 'vitest';
import { IN_MEMORY, StoreError } from '../../src/store/database.ts';
import { KeyRing } from '../../src/store/key-ring.ts';
import { KeyStore, type NewKey } from '../../src/store/key-store.ts';
import { openDatabase } from '../../src/store/open-database.ts';
import { UsageStore } from '../../src/store/usage-store.ts';
import { opened } from './opened.ts';
import { type TestServer, type TestServerOptions, testServer } from './test-server.ts';

export const messages = [{ role: 'user', content: 'Hello, who are you?' }];
export const endless = { messages, max_tokens: 3000, ignore_eos: true, temperature: 0 };

export async function start(options: TestServerOptions = {}): Promise<TestServer> {
  const server = await testServer(options);
  opened.push(() => server.close());
  return server;
}

/** For all tests of a file. No request may be left when the next one begins. */
export function sharedServer(options: TestServerOptions = {}) {
  let server: TestServer;
  beforeAll(async () => {
    server = await testServer(options);
  });
  afterAll(() => server.close());
  beforeEach(() => expect(server.pool.leases).toBe(0));
  const post = async (url: string, payload: object | string, headers: Record<string, string> = {}) => {
    const type = typeof payload === 'string' ? { 'content-type': 'application/json' } : {};
    return server.app.inject({ method: 'POST', url, payload, headers: { ...type, ...headers } });
  };
  return {
    get server(): TestServer {
      return server;
    },
    post,
    /** Throws where it is refused. */
    async answer(url: string, payload: object): Promise<unknown> {
      const response = await post(url, payload);
      if (response.statusCode !== 200) throw new Error(response.body);
      return response.json();
    },
  };
}

/** Posts JSON over a socket. */
export function postJson(
  url: string,
  body: object,
  { key, id, signal }: { key?: string; id?: string; signal?: AbortSignal } = {},
): Promise<Response> {
  return fetch(url, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: {
      'content-type': 'application/json',
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      ...(id === undefined ? {} : { 'x-request-id': id }),
    },
    ...(signal === undefined ? {} : { signal }),
  });
}

/** A server whose model is not loaded before `open` is called. */
export async function startLoading(options: TestServerOptions = {}) {
  let open = () => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { server: await start({ ...options, pool: { ...options.pool, loading: () => gate } }), open };
}

/** A server with keys: each name is the key of a new record. */
export async function startWithKeys<Name extends string>(
  wanted: Readonly<Record<Name, Partial<NewKey>>>,
  options: TestServerOptions = {},
  path = IN_MEMORY,
) {
  const database = await openDatabase(path);
  opened.push(() => database.close());
  const keyStore = new KeyStore(database);
  const usage = new UsageStore(database, (error) => {
    if (!(error instanceof StoreError && error.fault === 'busy')) expect.fail(String(error));
  });
  opened.push(() => usage.close());
  const secrets = {} as Record<Name, string>;
  for (const [name, key] of Object.entries<Partial<NewKey>>(wanted)) {
    const made = await keyStore.createKey({ name, tier: 'normal', limits: {}, ...key }, Date.now());
    if (!made.ok) throw new Error(made.message);
    secrets[name as Name] = made.key;
  }
  const keys = await KeyRing.open(database, keyStore, (error) => expect.fail(String(error)));
  const server = await start({ ...options, keys, keyStore, usage });
  const call = (key: string | undefined, url: string, payload?: object, method?: 'DELETE') =>
    server.app.inject({
      method: method ?? (payload === undefined ? 'GET' : 'POST'),
      url,
      ...(payload === undefined ? {} : { payload }),
      headers: key === undefined ? {} : { authorization: `Bearer ${key}` },
    });
  return { server: { ...server, keys }, secrets, call, usage, keyStore, database };
}
