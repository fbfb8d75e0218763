// A server with keys, files and batches, and what clients do with them.

import { expect } from 'vitest';
import { BatchLines } from '../../src/store/batch-lines.ts';
import { BatchStore } from '../../src/store/batch-store.ts';
import { type Database, IN_MEMORY } from '../../src/store/database.ts';
import { FileStore } from '../../src/store/file-store.ts';
import { KeyRing } from '../../src/store/key-ring.ts';
import { KeyStore, type NewKey } from '../../src/store/key-store.ts';
import { newLeaseOwner } from '../../src/store/lease-owner.ts';
import { openDatabase } from '../../src/store/open-database.ts';
import { UsageStore } from '../../src/store/usage-store.ts';
import { start } from './keyed-server.ts';
import { opened } from './opened.ts';
import { waitUntil } from './server-process.ts';
import type { TestServer, TestServerOptions } from './test-server.ts';

export interface Batch {
  readonly id: string;
  readonly status: string;
  readonly request_counts: { readonly total: number; readonly completed: number; readonly failed: number };
  readonly errors: { readonly data: readonly Record<string, unknown>[] } | null;
  readonly output_file_id: string | null;
  readonly error_file_id: string | null;
  readonly [name: string]: unknown;
}

/** A line of a batch's output. */
export interface OutputLine {
  readonly id: string;
  readonly custom_id: string;
  readonly response: { status_code: number; request_id: string; body: Record<string, unknown> } | null;
  readonly error: { code: string; message: string } | null;
}

const ended = ['failed', 'completed', 'expired', 'cancelled'];

/** A line of a batch's input. */
export function inputLine(customId: string, body: object, url = '/v1/chat/completions'): string {
  return JSON.stringify({ custom_id: customId, method: 'POST', url, body });
}

class BatchServer<Name extends string = string> {
  readonly server: TestServer;
  readonly secrets: Readonly<Record<Name, string>>;
  readonly database: Database;
  readonly keyStore: KeyStore;
  readonly usage: UsageStore;
  readonly batches: { readonly store: BatchStore; readonly lines: BatchLines; readonly owner: string };
  readonly files: FileStore;

  constructor(
    of: Pick<
      BatchServer<Name>,
      'server' | 'secrets' | 'database' | 'keyStore' | 'usage' | 'batches' | 'files'
    >,
  ) {
    this.server = of.server;
    this.secrets = of.secrets;
    this.database = of.database;
    this.keyStore = of.keyStore;
    this.usage = of.usage;
    this.batches = of.batches;
    this.files = of.files;
  }

  call(name: Name, method: 'GET' | 'POST' | 'DELETE', url: string, payload?: object | string, headers = {}) {
    return this.server.app.inject({
      method,
      url,
      ...(payload === undefined ? {} : { payload }),
      headers: { authorization: `Bearer ${this.secrets[name]}`, ...headers },
    });
  }

  upload(name: Name, content: string, fields: Readonly<Record<string, string>> = { purpose: 'batch' }) {
    const boundary = 'a-boundary-that-is-in-no-file';
    const parts = [
      `--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="input.jsonl"\r\ncontent-type: application/octet-stream\r\n\r\n${content}\r\n`,
      ...Object.entries(fields).map(
        ([field, value]) =>
          `--${boundary}\r\ncontent-disposition: form-data; name="${field}"\r\n\r\n${value}\r\n`,
      ),
      `--${boundary}--\r\n`,
    ];
    return this.call(name, 'POST', '/v1/files', parts.join(''), {
      'content-type': `multipart/form-data; boundary=${boundary}`,
    });
  }

  async submit(name: Name, lines: readonly string[], endpoint = '/v1/chat/completions'): Promise<Batch> {
    const file = await this.upload(name, `${lines.join('\n')}\n`);
    expect(file.statusCode, file.body).toBe(200);
    const order = { input_file_id: file.json<{ id: string }>().id, endpoint, completion_window: '24h' };
    const made = await this.call(name, 'POST', '/v1/batches', order);
    expect(made.statusCode, made.body).toBe(200);
    return made.json<Batch>();
  }

  async find(name: Name, id: string): Promise<Batch> {
    return (await this.call(name, 'GET', `/v1/batches/${id}`)).json<Batch>();
  }

  async until(name: Name, id: string, holds: (batch: Batch) => boolean): Promise<Batch> {
    await waitUntil(async () => holds(await this.find(name, id)));
    return this.find(name, id);
  }

  ended(name: Name, id: string): Promise<Batch> {
    return this.until(name, id, ({ status }) => ended.includes(status));
  }

  async read(name: Name, fileId: string | null): Promise<OutputLine[]> {
    if (fileId === null) return [];
    const { body } = await this.call(name, 'GET', `/v1/files/${fileId}/content`);
    return body
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as OutputLine);
  }

  async usageOf(name: Name): Promise<number> {
    const keys = await this.keyStore.list();
    const id = keys.find((key) => key.name === name)?.id;
    const rows = await this.usage.report({});
    return rows.filter(({ keyId }) => keyId === id).reduce((sum, { requests }) => sum + requests, 0);
  }
}

export async function startBatchServer<Name extends string>(
  wanted: Readonly<Record<Name, Partial<NewKey>>>,
  options: TestServerOptions = {},
  path = IN_MEMORY,
  share?: (total: number) => number,
): Promise<BatchServer<Name>> {
  const onProblem = (error: unknown) => expect.fail(String(error));
  const database = await openDatabase(path);
  opened.push(() => database.close());
  const keyStore = new KeyStore(database);
  const secrets = {} as Record<Name, string>;
  for (const [name, key] of Object.entries<Partial<NewKey>>(wanted)) {
    const made = await keyStore.createKey({ name, tier: 'normal', limits: {}, ...key }, Date.now());
    if (!made.ok) throw new Error(made.message);
    secrets[name as Name] = made.key;
  }
  const usage = new UsageStore(database, onProblem);
  opened.push(() => usage.close());
  const files = new FileStore(database, onProblem);
  opened.push(() => files.close());
  const batches = {
    store: new BatchStore(database),
    lines: new BatchLines(database),
    owner: newLeaseOwner(),
    share,
  };
  const keys = await KeyRing.open(database, keyStore, onProblem);
  const server = await start({ ...options, keys, keyStore, usage, files, batches });
  return new BatchServer<Name>({ server, secrets, database, keyStore, usage, batches, files });
}
