// Where the tests of the stores keep their databases: every test of a store runs on each kind of database there is.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe } from 'vitest';
import type { Database } from '../../src/store/database.ts';
import { openDatabase } from '../../src/store/open-database.ts';
import { missingPostgres, PostgresServer } from './postgres.ts';

interface StoreHome {
  readonly kind: Database['kind'];
  /** Of this test. */
  location(): string;
  /** Opens that database, again and again; all are closed after the test. */
  open(): Promise<Database>;
}

/** Describes something for each kind of database, with a fresh one for every test. */
export function describeStores(title: string, describeOn: (home: StoreHome) => void): void {
  describe(`${title}, in a file`, () => describeOn(embeddedHome()));
  const skipped = missingPostgres === undefined ? '' : ` (skipped: ${missingPostgres})`;
  describe.skipIf(missingPostgres !== undefined)(`${title}, on Postgres${skipped}`, () =>
    describeOn(postgresHome().home),
  );
}

function embeddedHome(): StoreHome {
  let folder = '';
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'chairlift-store-'));
  });
  // Hooks after a test run in the other order: what was opened is closed before its place goes.
  afterEach(() => rmSync(folder, { recursive: true }));
  const location = () => join(folder, 'a.db');
  return { kind: 'embedded', location, open: closing(location) };
}

export function postgresHome(): { readonly home: StoreHome; readonly server: () => PostgresServer } {
  let server: PostgresServer | undefined;
  let address = '';
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  beforeEach(async () => {
    address = (await server?.createDatabase()) ?? '';
  });
  afterAll(() => server?.stop());
  const location = () => address;
  return {
    home: { kind: 'postgres', location, open: closing(location) },
    server: () => server as PostgresServer,
  };
}

function closing(location: () => string): () => Promise<Database> {
  const opened: Database[] = [];
  afterEach(async () => {
    for (const database of opened.splice(0)) await database.close();
  });
  return async () => {
    const database = await openDatabase(location());
    let closed: Promise<void> | undefined;
    const once: Database = { ...database, close: () => (closed ??= database.close()) };
    opened.push(once);
    return once;
  };
}
