// `chairlift keys create|list|revoke`: who may use the server, at which priority and how much. A running server applies changes
// by itself.

import { type Command, Option } from 'commander';
import { removeSavedSlots } from '../block-store/slot-files.ts';
import { processInputs, resolveConfig } from '../config.ts';
import { removeStored } from '../pool/stored-blocks.ts';
import { messageOf } from '../runtime/error-message.ts';
import { type KeyRecord, TIERS, type Tier } from '../store/key-record.ts';
import { KeyStore } from '../store/key-store.ts';
import { openDatabase } from '../store/open-database.ts';
import { withoutPassword } from '../store/postgres-address.ts';
import { addDatabaseOption, parseCount, parseNumber } from './flags.ts';
import { formatColumns } from './terminal.ts';
import { UsageError } from './usage-error.ts';

interface DatabaseOptions {
  readonly database: string;
  readonly json?: true;
}

interface CreateOptions extends DatabaseOptions {
  readonly name: string;
  readonly tier: Tier;
  readonly admin?: true;
  readonly rpm?: number;
  readonly tpm?: number;
  readonly maxConcurrent?: number;
  readonly dailyTokens?: number;
  readonly kvShare?: number;
}

interface ListOptions extends DatabaseOptions {
  readonly all?: true;
}

export function addKeys(program: Command): void {
  const keys = program.command('keys').description('create, list and revoke API keys');
  withStore(keys.command('create').description('make a key and show it once'))
    .requiredOption('--name <name>', 'whose key it is')
    .addOption(new Option('--tier <tier>', 'its priority').choices(TIERS).default('normal'))
    .option('--admin', 'let it open /admin/*')
    .option('--rpm <count>', 'requests a minute', parseCount)
    .option('--tpm <count>', 'tokens a minute', parseCount)
    .option('--max-concurrent <count>', 'requests at once', parseCount)
    .option('--daily-tokens <count>', 'tokens a day, counted in UTC', parseCount)
    .option('--kv-share <part>', "part of a model's KV blocks it may hold, such as 0.25", parseNumber)
    .action(createKey);
  withStore(keys.command('list').description('show the keys'))
    .option('--all', 'show revoked keys too')
    .action(listKeys);
  withStore(
    keys
      .command('revoke')
      .description('end a key, and delete its KV blocks on disk and its saved slots; its usage stays'),
  )
    .argument('<key>', 'its name or id')
    .option('--cache-disk <folder>', "the folder of KV blocks; the server's where unset")
    .option('--cache-disk-key <file>', "the file of their key; the server's where unset")
    .option('--slot-save-path <folder>', "the folder of saved slots; the server's where unset")
    .action(revokeKey);
}

function withStore(command: Command): Command {
  return addDatabaseOption(command).option('--json', 'print JSON');
}

async function createKey(options: CreateOptions): Promise<void> {
  const { name, tier, admin = false, rpm, tpm, maxConcurrent, dailyTokens, kvShare } = options;
  const limits = { requestsPerMinute: rpm, tokensPerMinute: tpm, maxConcurrent, dailyTokens, kvShare };
  const result = await withKeyStore(options.database, (store) =>
    store.createKey({ name, tier, admin, limits }, Date.now()),
  );
  if (!result.ok) throw new UsageError(result.message);
  if (options.json) {
    process.stdout.write(`${JSON.stringify({ key: result.key, ...result.record })}\n`);
    return;
  }
  // Only the key goes to standard output, for scripts.
  process.stderr.write(
    `Made the ${tier} key '${name}' (${result.record.id}). It is shown this once; keep it safe:\n`,
  );
  process.stdout.write(`${result.key}\n`);
}

async function listKeys(options: ListOptions): Promise<void> {
  const all = await withKeyStore(options.database, (store) => store.list());
  const records = options.all ? all : all.filter(({ revokedMs }) => revokedMs === undefined);
  if (options.json) process.stdout.write(`${JSON.stringify(records)}\n`);
  else if (records.length === 0) {
    const place = withoutPassword(options.database);
    // Without any key this machine is served; with only revoked keys nobody is.
    const revoked = all.length === 0 ? '' : ` ${all.length} revoked: --all shows them.`;
    process.stdout.write(`No ${all.length === 0 ? '' : 'live '}keys in ${place}.${revoked}\n`);
  } else process.stdout.write(`${layOut(records)}\n`);
}

interface RevokeOptions extends DatabaseOptions {
  readonly cacheDisk?: string;
  readonly cacheDiskKey?: string;
  readonly slotSavePath?: string;
}

async function revokeKey(nameOrId: string, options: RevokeOptions): Promise<void> {
  const { record, left } = await withKeyStore(options.database, async (store) => ({
    record: await store.revoke(nameOrId, Date.now()),
    left: (await store.liveKeys()).live.length,
  }));
  if (record === undefined) {
    throw new UsageError(`no live key has the name or id '${nameOrId}'; 'chairlift keys list' shows them`);
  }
  const text = options.json
    ? JSON.stringify(record)
    : `Revoked '${record.name}' (${record.id}, ${record.prefix}…).${left === 0 ? `\n${noneLeft}` : ''}`;
  process.stdout.write(`${text}\n`);
  await deleteSavedSlots(record.id, options);
  deleteBlocks(record.id, options);
}

async function deleteSavedSlots(keyId: string, { slotSavePath }: RevokeOptions): Promise<void> {
  const folder = slotSavePath ?? resolveConfig(processInputs({})).config.slotSavePath;
  if (folder === undefined) return;
  try {
    const slots = await removeSavedSlots(folder, keyId);
    if (slots > 0) process.stderr.write(`Deleted ${slots} of its saved slots in ${folder}.\n`);
  } catch (error) {
    throw new UsageError(`its saved slots in ${folder} could not be deleted: ${messageOf(error)}`);
  }
}

/** A running server that has this database deletes them as well, with those in its memory: nobody may be running. */
function deleteBlocks(keyId: string, options: RevokeOptions): void {
  const { folder, keyFile } = blockFolder(options);
  if (folder === undefined) return;
  try {
    const blocks = removeStored(folder, keyId, keyFile);
    if (blocks > 0) process.stderr.write(`Deleted ${blocks} of its KV blocks in ${folder}.\n`);
  } catch (error) {
    throw new UsageError(`its KV blocks in ${folder} could not be deleted: ${messageOf(error)}`);
  }
}

/** Unset options come from the server's settings; a key file outside the folder belongs to the folder it is set with. */
function blockFolder({ cacheDisk, cacheDiskKey }: RevokeOptions) {
  if (cacheDisk !== undefined) return { folder: cacheDisk, keyFile: cacheDiskKey };
  const { config } = resolveConfig(processInputs({}));
  return { folder: config.cacheDisk, keyFile: cacheDiskKey ?? config.cacheDiskKey };
}

const noneLeft =
  'It was the last key: nobody is served until there is another, or the server runs with --allow-anonymous.';

async function withKeyStore<T>(path: string, action: (store: KeyStore) => Promise<T>): Promise<T> {
  const database = await openDatabase(path);
  try {
    return await action(new KeyStore(database));
  } finally {
    await database.close();
  }
}

function layOut(records: readonly KeyRecord[]): string {
  const headings = [
    'name',
    'id',
    'key',
    'tier',
    'admin',
    'rpm',
    'tpm',
    'at once',
    'tokens/day',
    'kv share',
    'made',
    'revoked',
  ];
  return formatColumns(
    headings,
    records.map(({ limits, ...record }) => [
      record.name,
      record.id,
      `${record.prefix}…`,
      record.tier,
      record.admin ? 'yes' : 'no',
      limits.requestsPerMinute,
      limits.tokensPerMinute,
      limits.maxConcurrent,
      limits.dailyTokens,
      limits.kvShare,
      formatTime(record.createdMs),
      record.revokedMs === undefined ? undefined : formatTime(record.revokedMs),
    ]),
  );
}

function formatTime(timeMs: number): string {
  return `${new Date(timeMs).toISOString().slice(0, 16).replace('T', ' ')}Z`;
}
