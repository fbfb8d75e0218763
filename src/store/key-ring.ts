// The live keys in memory, which every request is checked against without SQL. Changes by this process are seen at
// once, by another within a second, and the first key of all at once.

import type { Database } from './database.ts';
import type { KeyRecord } from './key-record.ts';
import { hashKey, type KeyStore, prefixOf, type StoredKey, sameHash } from './key-store.ts';

const LOOK_EVERY_MS = 1000;
// Compared with where no key has the prefix, so that both cases take the same time. No key hashes to it.
const NO_HASH = new Uint8Array(32);

/** Called for the first of several failures; the ring keeps the keys it has. */
type OnProblem = (error: unknown) => void;

/** `none`: there never was a key. `revoked`: all keys were revoked; the server then stays locked. */
export type KeyStatus = 'none' | 'live' | 'revoked';

interface Version {
  readonly data: number;
  readonly changes: number;
}

export class KeyRing {
  readonly #database: Database;
  readonly #store: KeyStore;
  readonly #onProblem: OnProblem;
  #keys: ReadonlyMap<string, StoredKey> = new Map();
  #everMade = false;
  #seen: Version = { data: -1, changes: -1 };
  #lookedMs = 0;
  #failing = false;
  /** Hears of each key that was live and is not any more, by its id, whoever revoked it. */
  onRevoked: ((keyId: string) => void) | undefined;

  private constructor(database: Database, store: KeyStore, onProblem: OnProblem) {
    this.#database = database;
    this.#store = store;
    this.#onProblem = onProblem;
  }

  static async open(database: Database, store: KeyStore, onProblem: OnProblem): Promise<KeyRing> {
    const ring = new KeyRing(database, store, onProblem);
    await ring.reload();
    return ring;
  }

  async reload(): Promise<void> {
    // Taken before the keys are read, so that a change in between is seen as new.
    const seen = await this.#version();
    const { live, everMade } = await this.#store.liveKeys();
    const before = this.#keys;
    this.#keys = new Map(live.map((key) => [key.record.prefix, key]));
    this.#everMade = everMade;
    this.#seen = seen;
    const ids = new Set(live.map(({ record }) => record.id));
    for (const { record } of before.values()) if (!ids.has(record.id)) this.onRevoked?.(record.id);
  }

  /** Looks whether keys were made or revoked; where nobody asks for any, nobody else does. */
  async follow(): Promise<void> {
    await this.#reloadIfChanged();
  }

  /** `unsure` where the key is unknown and the database cannot be read. */
  async findByKey(key: string, nowMs: number): Promise<KeyRecord | 'unsure' | undefined> {
    await this.#look(nowMs);
    const found = this.#match(key);
    if (found !== undefined) return found;
    // A key made a moment ago must work at once, so a miss always checks.
    const sure = await this.#reloadIfChanged();
    return this.#match(key) ?? (sure ? undefined : 'unsure');
  }

  async findById(id: string, nowMs: number): Promise<KeyRecord | 'unsure' | undefined> {
    await this.#look(nowMs);
    const found = this.#recordOf(id);
    if (found !== undefined) return found;
    const sure = await this.#reloadIfChanged();
    return this.#recordOf(id) ?? (sure ? undefined : 'unsure');
  }

  #recordOf(id: string): KeyRecord | undefined {
    for (const { record } of this.#keys.values()) if (record.id === id) return record;
    return undefined;
  }

  async status(nowMs: number): Promise<KeyStatus> {
    await this.#look(nowMs);
    if (this.#keys.size > 0) return 'live';
    return this.#everMade ? 'revoked' : 'none';
  }

  #match(key: string): KeyRecord | undefined {
    const candidate = this.#keys.get(prefixOf(key));
    return sameHash(hashKey(key), candidate?.hash ?? NO_HASH) ? candidate?.record : undefined;
  }

  async #look(nowMs: number): Promise<void> {
    const recent = Math.abs(nowMs - this.#lookedMs) < LOOK_EVERY_MS;
    // Without keys everybody is served, so the first key must take effect at once.
    const isOpen = this.#keys.size === 0 && !this.#failing;
    if (recent && !isOpen && this.#seen.changes === this.#store.changes) return;
    this.#lookedMs = nowMs;
    await this.#reloadIfChanged();
  }

  async #reloadIfChanged(): Promise<boolean> {
    try {
      const { data, changes } = await this.#version();
      if (data !== this.#seen.data || changes !== this.#seen.changes) await this.reload();
      this.#failing = false;
      return true;
    } catch (error) {
      if (!this.#failing) this.#onProblem(error);
      this.#failing = true;
      return false;
    }
  }

  async #version(): Promise<Version> {
    // Read first, so that a change of our own in between is seen as new.
    const { changes } = this.#store;
    return { data: await this.#database.keysVersion(), changes };
  }
}
