// `chairlift cache ls|rm|verify`: the KV blocks that servers keep on disk. All of it works while servers run: they take a block that
// was removed for one that is not there.

import { join } from 'node:path';
import type { Command } from 'commander';
import { KEY_FILE, readStoreKey } from '../block-store/key-file.ts';
import { nodeFiles } from '../block-store/node-files.ts';
import { removeSegments, removeTenant } from '../block-store/removal.ts';
import { Sealing } from '../block-store/sealing.ts';
import { beginMsOf, listModels } from '../block-store/segments.ts';
import { type ModelCheck, type ModelSurvey, surveyStore, verifyModel } from '../block-store/survey.ts';
import { processInputs, resolveConfig } from '../config.ts';
import { messageOf } from '../runtime/error-message.ts';
import { formatBytes } from '../text/byte-size.ts';
import { parseNumber } from './flags.ts';
import { formatColumns, formatCount, progressBar } from './terminal.ts';
import { UsageError } from './usage-error.ts';

interface CacheFlags {
  readonly cacheDisk: string;
  readonly cacheDiskKey: string;
  readonly json?: true;
}

interface RemoveFlags extends CacheFlags {
  readonly all?: true;
  readonly key?: string;
  readonly olderThan?: number;
}

const DAY_MS = 86_400_000;

export function addCache(program: Command): void {
  const cache = program.command('cache').description('the KV blocks that servers keep on disk');
  withFolder(cache.command('ls').alias('list').description('show how much is kept of each model'))
    .option('--json', 'print JSON')
    .action(list);
  withFolder(cache.command('rm').alias('remove').description('remove blocks of models or of a key'))
    .argument('[model...]', 'a name that ls shows, or how it begins')
    .option('--all', 'of all models')
    .option('--key <id>', 'of an API key, by its id, and of no other')
    .option('--older-than <days>', 'segments that were begun so long ago', parseNumber)
    .action(remove);
  withFolder(cache.command('verify').description('read every block, and say how many are whole'))
    .argument('[model...]', 'a name that ls shows, or how it begins')
    .option('--json', 'print JSON')
    .action(verify);
}

/** What is not given is as servers are told it. */
function withFolder(command: Command): Command {
  return command
    .option('--cache-disk <folder>', "the folder of blocks; the server's where unset")
    .option('--cache-disk-key <file>', "the file of their key; the server's where unset")
    .hook('preAction', () => {
      const given = command.opts<Partial<CacheFlags>>();
      const { config } = resolveConfig(processInputs({}));
      const folder = given.cacheDisk ?? config.cacheDisk;
      if (folder === undefined)
        throw new UsageError('give --cache-disk: no setting names a folder of KV blocks');
      // A key elsewhere belongs to the folder that it is set with.
      const key = given.cacheDiskKey ?? (given.cacheDisk === undefined ? config.cacheDiskKey : undefined);
      command.setOptionValue('cacheDisk', folder);
      command.setOptionValue('cacheDiskKey', key ?? join(folder, KEY_FILE));
    });
}

function list({ cacheDisk, cacheDiskKey, json }: CacheFlags): void {
  const models = asking(cacheDisk, () => surveyStore(nodeFiles, cacheDisk, sealingOf(cacheDiskKey)));
  process.stdout.write(`${json ? JSON.stringify(models) : layOut(models, cacheDisk)}\n`);
}

function layOut(models: readonly ModelSurvey[], folder: string): string {
  if (models.length === 0) return `There are no blocks in ${folder}.`;
  const rows = models.map(({ model, bytes, segments, blocks, oldestS, newestS, unreadableSegments }) => [
    model,
    blocks,
    formatBytes(bytes),
    segments,
    timeOf(oldestS),
    timeOf(newestS),
    unreadableSegments > 0 ? unreadableSegments : undefined,
  ]);
  const all = models.reduce((sum, { bytes }) => sum + bytes, 0);
  return [
    formatColumns(['model', 'blocks', 'size', 'segments', 'oldest', 'newest', 'unreadable'], rows),
    '',
    `${formatBytes(all)} in ${folder}.`,
  ].join('\n');
}

function timeOf(seconds: number | undefined): string | undefined {
  return seconds === undefined
    ? undefined
    : `${new Date(seconds * 1000).toISOString().slice(0, 16).replace('T', ' ')}Z`;
}

function remove(
  names: readonly string[],
  { cacheDisk, cacheDiskKey, all, key, olderThan }: RemoveFlags,
): void {
  if (key !== undefined) {
    if (names.length > 0 || all || olderThan !== undefined) {
      throw new UsageError('--key removes the blocks of a key from all models: give nothing else with it');
    }
    removeKey(cacheDisk, cacheDiskKey, key);
    return;
  }
  if (names.length === 0 && !all && olderThan === undefined) {
    throw new UsageError(
      "say what to remove: models that 'chairlift cache ls' shows, --older-than, --key or --all",
    );
  }
  const models = new Set(asking(cacheDisk, () => modelsNamed(cacheDisk, names)));
  const endMs = olderThan === undefined ? Number.POSITIVE_INFINITY : Date.now() - olderThan * DAY_MS;
  const bytes = asking(cacheDisk, () =>
    removeSegments(nodeFiles, cacheDisk, ({ model, name }) => models.has(model) && beginMsOf(name) < endMs),
  );
  process.stdout.write(`removed ${formatBytes(bytes)}\n`);
}

function removeKey(folder: string, keyFile: string, key: string): void {
  const sealing = sealingOf(keyFile);
  if (sealing === undefined) {
    throw new UsageError(`${keyFile} cannot be read: whose blocks are whose is not known without it`);
  }
  const blocks = asking(folder, () => removeTenant(nodeFiles, folder, sealing, key));
  process.stdout.write(`removed ${formatCount(blocks)} blocks of ${key}\n`);
}

function verify(names: readonly string[], { cacheDisk, cacheDiskKey, json }: CacheFlags): void {
  const sealing = sealingOf(cacheDiskKey);
  const models = asking(cacheDisk, () => modelsNamed(cacheDisk, names));
  if (sealing === undefined && models.length > 0) {
    throw new UsageError(`${cacheDiskKey} cannot be read: no block can be opened without it`);
  }
  const checks = models.map((model) => checked(cacheDisk, model, sealing as Sealing));
  process.stdout.write(`${json ? JSON.stringify(checks) : layOutChecks(checks, cacheDisk)}\n`);
  if (checks.some(({ damaged, damagedSlots }) => damaged + damagedSlots > 0)) process.exitCode = 1;
}

function checked(folder: string, model: string, sealing: Sealing): ModelCheck {
  const bar = progressBar(model);
  try {
    return asking(folder, () =>
      verifyModel(nodeFiles, folder, model, sealing, (read, all) => bar.update(read / all)),
    );
  } finally {
    bar.end();
  }
}

function layOutChecks(checks: readonly ModelCheck[], folder: string): string {
  if (checks.length === 0) return `There are no blocks in ${folder}.`;
  const rows = checks.map(({ model, whole, damaged, damagedSlots, unreadableSegments }) => [
    ...[model, whole, damaged + damagedSlots],
    unreadableSegments > 0 ? unreadableSegments : undefined,
  ]);
  return formatColumns(['model', 'whole', 'damaged', 'unreadable segments'], rows);
}

/** All where none is named. */
function modelsNamed(folder: string, names: readonly string[]): string[] {
  const all = listModels(nodeFiles, folder);
  const named = names.map((name) => {
    const found = all.filter((model) => model.startsWith(name));
    if (found.length === 0) {
      throw new UsageError(
        `there are no blocks of '${name}' in ${folder}; 'chairlift cache ls' shows what there is`,
      );
    }
    return found;
  });
  return names.length === 0 ? all : [...new Set(named.flat())];
}

function sealingOf(keyFile: string): Sealing | undefined {
  const key = asking(keyFile, () => readStoreKey(nodeFiles, keyFile));
  return key && new Sealing(key);
}

/** What may not be read is said in a line. */
function asking<T>(path: string, ask: () => T): T {
  try {
    return ask();
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(`${path} cannot be used: ${messageOf(error)}`);
  }
}
