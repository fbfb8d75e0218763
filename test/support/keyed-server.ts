// Servers as the tests of the edge start them, closed after each test.

import { expect } from 'vitest';
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
