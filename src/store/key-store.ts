// API keys in the database: created, listed, revoked. A key's secret is shown once; only its hash and prefix are
// stored.

import { createHash, randomInt, timingSafeEqual } from 'node:crypto';
import type { Selectable } from 'kysely';
import type { Database, Tables } from './database.ts';
import { violates } from './database-failures.ts';
import { ANONYMOUS_KEY_ID, type KeyLimits, type KeyRecord, type Tier } from './key-record.ts';
import type { ApiKeyTable } from './schema.ts';

const ID_MARK = 'key_';
const ID_LETTERS = 12;
const NAME_LENGTH = 64;
const liveName = { name: 'live_key_name', table: 'api_key', column: 'name' };
// Keeps the limiter's arithmetic exact.
const LARGEST_RATE = 1_000_000_000;

export interface NewKey {
  readonly name: string;
  readonly tier: Tier;
  readonly admin?: boolean;
  readonly limits: KeyLimits;
}

type CreateKeyResult =
  | { readonly ok: true; readonly key: string; readonly record: KeyRecord }
  | { readonly ok: false; readonly problem: 'invalid' | 'name-taken'; readonly message: string };

export interface StoredKey {
  readonly record: KeyRecord;
  readonly hash: Uint8Array;
}

interface LiveKeys {
  readonly live: readonly StoredKey[];
  readonly everMade: boolean;
}

export class KeyStore {
  readonly #database: Database;
  #changes = 0;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Changes by this object; those of others show in the database's `keysVersion`. */
  get changes(): number {
    return this.#changes;
  }

  async createKey(wanted: NewKey, nowMs: number): Promise<CreateKeyResult> {
    const message = faultOf(wanted);
    if (message !== undefined) return { ok: false, problem: 'invalid', message };
    const key = makeKey();
    const row = rowOf(wanted, key, nowMs);
    try {
      await this.#change((tables) => tables.insertInto('api_key').values(row).execute());
    } catch (error) {
      if (!violates(error, liveName)) throw error;
      const taken = `a key named '${wanted.name}' exists; revoke it first or choose another name`;
      return { ok: false, problem: 'name-taken', message: taken };
    }
    await this.#sync();
    return { ok: true, key, record: recordOf(row) };
  }

  async list(): Promise<KeyRecord[]> {
    return (await this.#rows()).map(recordOf);
  }

  /** With their hashes, and whether there ever was a key. */
  async liveKeys(): Promise<LiveKeys> {
    const rows = await this.#rows();
    const live = rows
      .filter(({ revoked_ms }) => revoked_ms === null)
      .map((row) => ({ record: recordOf(row), hash: Buffer.from(row.hash, 'hex') }));
    return { live, everMade: rows.length > 0 };
  }

  /** Undefined where no live key has that name or id. Usage is kept. */
  async revoke(nameOrId: string, nowMs: number): Promise<KeyRecord | undefined> {
    const row = await this.#change((tables) =>
      tables
        .updateTable('api_key')
        .set({ revoked_ms: nowMs })
        .where((where) => where.or([where('name', '=', nameOrId), where('id', '=', nameOrId)]))
        .where('revoked_ms', 'is', null)
        .returningAll()
        .executeTakeFirst(),
    );
    if (row === undefined) return undefined;
    await this.#sync();
    return recordOf(row);
  }

  #rows(): Promise<Selectable<ApiKeyTable>[]> {
    return this.#database.tables
      .selectFrom('api_key')
      .selectAll()
      .orderBy('created_ms')
      .orderBy('id')
      .execute();
  }

  /** A failed change counts too: a reader may have seen what was rolled back. */
  async #change<Result>(action: (tables: Tables) => Promise<Result>): Promise<Result> {
    try {
      return await this.#database.change(action);
    } finally {
      this.#changes++;
    }
  }

  /** The change is committed: a failing flush must not make it look undone. */
  async #sync(): Promise<void> {
    await this.#database.sync().catch(() => {});
  }
}

function faultOf({ name, limits }: NewKey): string | undefined {
  if (name.trim() !== name || name === '' || name.length > NAME_LENGTH || /\p{C}/u.test(name)) {
    return `a key's name has 1 to ${NAME_LENGTH} printable characters and no space at its ends`;
  }
  if (name.startsWith(ID_MARK) || name === ANONYMOUS_KEY_ID) {
    return `a key's name is not '${ANONYMOUS_KEY_ID}' and does not start with '${ID_MARK}'`;
  }
  const { kvShare, ...counts } = limits;
  if (kvShare !== undefined && !(kvShare > 0 && kvShare <= 1)) {
    return `kvShare is a number above 0 and up to 1, not ${kvShare}; leave it out for no limit`;
  }
  for (const [limit, value] of Object.entries(counts)) {
    const largest = limit === 'dailyTokens' ? Number.MAX_SAFE_INTEGER : LARGEST_RATE;
    if (value !== undefined && !(Number.isSafeInteger(value) && value >= 1 && value <= largest)) {
      return `${limit} is a whole number from 1 to ${largest}, not ${value}; leave it out for no limit`;
    }
  }
  return undefined;
}

function rowOf({ name, tier, admin = false, limits }: NewKey, key: string, nowMs: number): ApiKeyTable {
  return {
    id: ID_MARK + randomLetters(ID_LETTERS),
    name,
    prefix: prefixOf(key),
    hash: hashKey(key).toString('hex'),
    tier,
    admin: admin ? 1 : 0,
    requests_per_minute: limits.requestsPerMinute ?? null,
    tokens_per_minute: limits.tokensPerMinute ?? null,
    max_concurrent: limits.maxConcurrent ?? null,
    daily_tokens: limits.dailyTokens ?? null,
    kv_share: limits.kvShare ?? null,
    created_ms: nowMs,
    revoked_ms: null,
  };
}

function recordOf(row: ApiKeyTable): KeyRecord {
  return {
    id: row.id,
    name: row.name,
    prefix: row.prefix,
    tier: row.tier as Tier,
    admin: row.admin === 1,
    limits: {
      requestsPerMinute: row.requests_per_minute ?? undefined,
      tokensPerMinute: row.tokens_per_minute ?? undefined,
      maxConcurrent: row.max_concurrent ?? undefined,
      dailyTokens: row.daily_tokens ?? undefined,
      kvShare: row.kv_share ?? undefined,
    },
    createdMs: row.created_ms,
    ...(row.revoked_ms === null ? {} : { revokedMs: row.revoked_ms }),
  };
}

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const MARK = 'cl-';
// 43 letters of 62 carry 256 random bits; the 8 that are shown leave 208 of them secret.
const LETTERS = 43;
const SHOWN_LETTERS = 8;

function randomLetters(count: number): string {
  return Array.from({ length: count }, () => ALPHABET[randomInt(ALPHABET.length)]).join('');
}

function makeKey(): string {
  return MARK + randomLetters(LETTERS);
}

/** Not secret: it finds the record, and the hash decides. */
export function prefixOf(key: string): string {
  return key.slice(0, MARK.length + SHOWN_LETTERS);
}

/**
 * One unsalted round of SHA-256: slow salted hashes protect guessable passwords, and 208 random bits cannot be
 * guessed. Every request would pay for a slow hash.
 */
export function hashKey(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}

/** Takes constant time. */
export function sameHash(left: Uint8Array, right: Uint8Array): boolean {
  return timingSafeEqual(left, right);
}
