// The live keys in memory: what every request is checked against, without SQL.
// Follows the database: keys made or revoked by this process at once, by another within a second, and the first key of
// all at once.

import type { Database } from './database.ts';
import type { KeyRecord } from './key-record.ts';
import { hashKey, type KeyStore, prefixOf, type StoredKey, sameHash } from './key-store.ts';

const LOOK_EVERY_MS = 1000;
// Compared with where no key has the prefix, so that both ways do the same work. No key hashes to it.
const NO_HASH = new Uint8Array(32);

/** Told of the first failure of several that nobody awaits; the ring then goes on with the keys it has. */
type OnProblem = (error: unknown) => void;

/**
 * `none`: there never was a key. `live`: at least one opens the door. `revoked`: there were keys, and none is left; a
 * door that was locked once does not open by itself.
 */
export type KeyStanding = 'none' | 'live' | 'revoked';

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

  /** Reads all keys and their limits again. */
  async reload(): Promise<void> {
    // Taken before the keys are read: a change in between is then seen as new.
    const seen = await this.#version();
    const { live, everMade } = await this.#store.doorKeys();
    this.#keys = new Map(live.map((key) => [key.record.prefix, key]));
    this.#everMade = everMade;
    this.#seen = seen;
  }

  /** The record of the live key that this is; `unsure` where it is not known, and the database cannot be asked. */
  async findByKey(key: string, nowMs: number): Promise<KeyRecord | 'unsure' | undefined> {
    await this.#look(nowMs);
    const found = this.#match(key);
    if (found !== undefined) return found;
    // A key made a moment ago must work at once, so a miss always looks.
    const sure = await this.#reloadIfChanged();
    return this.#match(key) ?? (sure ? undefined : 'unsure');
  }

  /** The record of the live key of that id; unsure as above. */
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

  async standing(nowMs: number): Promise<KeyStanding> {
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
    // Without keys everybody may be served, so the first one must close the door at once.
    const isOpen = this.#keys.size === 0 && !this.#failing;
    if (recent && !isOpen && this.#seen.changes === this.#store.changes) return;
    this.#lookedMs = nowMs;
    await this.#reloadIfChanged();
  }

  /** Whether the database could be asked. */
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
    // Before the database is asked: a change of our own in between is then seen as new.
    const { changes } = this.#store;
    return { data: await this.#database.keysVersion(), changes };
  }
}
