// Where a server that is alone keeps streams that have begun, and with what they are sealed.

import { randomBytes } from 'node:crypto';
import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import type { Logger } from 'pino';
import { type Config, ConfigError } from '../config.ts';
import { messageOf } from '../runtime/error-message.ts';
import { Seal } from '../runtime/seal.ts';
import { StoreArchive } from '../server/archive/store-archive.ts';
import { type Database, IN_MEMORY } from '../store/database.ts';
import { KeptRequestStore } from '../store/kept-request-store.ts';
import { newLeaseOwner } from '../store/lease-owner.ts';
import { openDatabase } from '../store/open-database.ts';
import type { UsageStore } from '../store/usage-store.ts';

const SHORTEST_KEY = 16;
const KEY_BYTES = 32;

export interface OpenedArchive {
  readonly archive: StoreArchive;
  close(): Promise<void>;
}

/** Undefined where nothing is kept. */
export async function openArchive(
  config: Pick<Config, 'archive' | 'archiveBytes' | 'archiveKey'>,
  database: Database,
  usage: Pick<UsageStore, 'recordOnce' | 'flush'>,
  logger: Logger,
): Promise<OpenedArchive | undefined> {
  const { archive: place = 'file', archiveKey, archiveBytes } = config;
  checkArchiveKey(archiveKey);
  if (place === 'off') return undefined;
  const isShared = database.kind === 'postgres';
  if (place === 'file' && isShared && archiveKey === undefined) {
    if (config.archive !== undefined) requireArchiveKey(archiveKey);
    logger.info('streams are not kept: in Postgres that needs CHAIRLIFT_ARCHIVE_KEY');
    return undefined;
  }
  const own = place === 'memory' ? await openDatabase(IN_MEMORY) : undefined;
  const kept = own ?? database;
  try {
    const archive = new StoreArchive({
      store: new KeptRequestStore(kept),
      seal: new Seal(archiveKey ?? keyOf(kept), randomBytes),
      owner: newLeaseOwner(),
      maxBytes: archiveBytes,
      charge: async (lost) => {
        for (const { answerId, keyId, used } of lost) {
          usage.recordOnce(answerId, keyId, { ...used, failed: false }, Date.now());
        }
        await usage.flush();
        logger.info({ requests: lost.length }, 'charged what clients had received when the server ended');
      },
      onProblem: (message, error) => {
        if (error === undefined) logger.warn(message);
        else logger.warn({ err: error }, message);
      },
    });
    await archive.open();
    return {
      archive,
      close: async () => {
        await archive.close();
        await own?.close();
      },
    };
  } catch (error) {
    await own?.close();
    throw error;
  }
}

export function checkArchiveKey(key: string | undefined): void {
  if (key === undefined || key.length >= SHORTEST_KEY) return;
  throw new ConfigError(
    `--archive-key: has fewer than ${SHORTEST_KEY} characters; openssl rand -base64 32 makes one`,
  );
}

/** Prompts never lie on disks of other machines as they are. */
export function requireArchiveKey(key: string | undefined): void {
  if (key !== undefined) return;
  throw new ConfigError(
    '--archive: file needs CHAIRLIFT_ARCHIVE_KEY, or prompts would lie on disks in clear text',
  );
}

/** Made where there is none, in a file beside the database, for its owner alone. */
function keyOf({ name: path }: Database): string {
  if (path === IN_MEMORY) return randomBytes(KEY_BYTES).toString('base64');
  const file = `${path}.key`;
  try {
    makeKey(file);
    const key = readFileSync(file, 'utf8').trim();
    if (key.length < SHORTEST_KEY) throw new Error('it holds no key');
    return key;
  } catch (error) {
    throw new ConfigError(
      `--archive: ${file}, the key of kept streams, cannot be used: ${messageOf(error)}; remove it to have another, or set --archive off`,
    );
  }
}

/** Whole or not at all, whatever ends this process and whichever other one makes it, too. */
function makeKey(file: string): void {
  if (existsSync(file)) return;
  const aside = `${file}.${process.pid}`;
  const handle = openSync(aside, 'w', 0o600);
  try {
    writeSync(handle, `${randomBytes(KEY_BYTES).toString('base64')}\n`);
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
  try {
    linkSync(aside, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    unlinkSync(aside);
  }
}
