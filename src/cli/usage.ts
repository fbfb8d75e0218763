// `chairlift usage`: what each key used on each day, in UTC. A running server writes it every second.

import type { Command } from 'commander';
import { ANONYMOUS_KEY_ID, type KeyRecord } from '../store/key-record.ts';
import { KeyStore } from '../store/key-store.ts';
import { openDatabase } from '../store/open-database.ts';
import { withoutPassword } from '../store/postgres-address.ts';
import {
  DAY_MS,
  reportUsage,
  sumUsage,
  type UsageCounts,
  type UsageRow,
  utcDay,
} from '../store/usage-report.ts';
import { addDatabaseOption, parseCount } from './flags.ts';
import { formatColumns } from './terminal.ts';
import { UsageError } from './usage-error.ts';

interface UsageOptions {
  readonly database: string;
  readonly key?: string;
  readonly days: number;
  readonly json?: true;
}

interface NamedUsage extends UsageRow {
  readonly keyName: string;
}

export function addUsage(program: Command): void {
  addDatabaseOption(program.command('usage').description('show requests and tokens by key and day'))
    .option('--key <key>', 'of one key alone: its name or id')
    .option('--days <count>', 'of so many days, today included', parseCount, 30)
    .option('--json', 'print JSON')
    .action(async (options: UsageOptions) => {
      const rows = await readUsage(options, Date.now());
      if (options.json) process.stdout.write(`${JSON.stringify(rows)}\n`);
      else if (rows.length === 0) process.stdout.write(`No usage in ${withoutPassword(options.database)}.\n`);
      else process.stdout.write(`${layOut(rows)}\n`);
    });
}

async function readUsage({ database: path, key, days }: UsageOptions, nowMs: number): Promise<NamedUsage[]> {
  const database = await openDatabase(path);
  try {
    const records = await new KeyStore(database).list();
    const keyIds = key === undefined ? undefined : idsOf(key, records);
    const fromDay = utcDay(Math.max(0, nowMs - (days - 1) * DAY_MS));
    const rows = await reportUsage(database, { fromDay, ...(keyIds && { keyIds }) });
    const names = new Map(records.map(({ id, name }) => [id, name]));
    return rows.map((row) => ({ ...row, keyName: names.get(row.keyId) ?? row.keyId }));
  } finally {
    await database.close();
  }
}

/** Several keys may have had the same name. */
function idsOf(nameOrId: string, records: readonly KeyRecord[]): string[] {
  if (nameOrId === ANONYMOUS_KEY_ID) return [ANONYMOUS_KEY_ID];
  const ids = records.filter(({ id, name }) => id === nameOrId || name === nameOrId).map(({ id }) => id);
  if (ids.length === 0) throw new UsageError(`no key, live or revoked, has the name or id '${nameOrId}'`);
  return ids;
}

function layOut(rows: readonly NamedUsage[]): string {
  const headings = ['day', 'key', 'requests', 'prompt', 'cached', 'completion', 'errors'];
  return formatColumns(headings, [
    ...rows.map((row) => [row.day, row.keyName, ...counts(row)]),
    ['total', '', ...counts(sumUsage(rows))],
  ]);
}

function counts(usage: UsageCounts): number[] {
  return [usage.requests, usage.promptTokens, usage.cachedTokens, usage.completionTokens, usage.errors];
}
