// Limits of keys shared by several gateways. Each call is one round trip; the database decides under the key's lock.

import type { RawBuilder } from 'kysely';
import { type Database, inTime } from './database.ts';
import type { KeyLimits } from './key-record.ts';
import { loadKysely } from './query-builder.ts';

/** A request waits for it. */
const ANSWER_MS = 1000;
/** A gateway not seen for this long is dead. */
const ALIVE_MS = 15_000;

interface LimitedRequest {
  readonly keyId: string;
  readonly limits: KeyLimits;
  readonly leastTokens: number;
  readonly expectedTokens: number;
  /** Undefined where it does not count as running. */
  readonly requestId: string | undefined;
}

interface GrowingRequest {
  readonly keyId: string;
  readonly limits: KeyLimits;
  readonly moreTokens: number;
  readonly requestId: string;
}

export interface Settlement {
  readonly keyId: string;
  readonly limits: KeyLimits;
  readonly requestId: string;
  readonly usedTokens: number;
  readonly served: boolean;
}

/** Times are of the database's clock; usage of limits per minute is in 1/60000. */
export interface LimitStatus {
  readonly ok: boolean;
  readonly now_ms: number;
  readonly requests_used: number;
  readonly tokens_used: number;
  /** With what was carried over. */
  readonly day_tokens: number;
  readonly reserved_tokens: number;
  /** Held for this request by this call. */
  readonly held_tokens: number;
  readonly running: number;
  readonly oldest_ms: number | null;
  readonly mean_ms: number | null;
}

interface LimitStoreOptions {
  /** Replaces the database's clock. */
  readonly clock?: (() => number) | undefined;
  readonly answerMs?: number;
}

export class LimitStore {
  readonly #database: Database;
  readonly #gatewayId: string;
  readonly #sql = loadKysely().sql;
  readonly #clock: () => number | null;
  readonly #answerMs: number;

  constructor(database: Database, gatewayId: string, options: LimitStoreOptions = {}) {
    this.#database = database;
    this.#gatewayId = gatewayId;
    this.#clock = options.clock ?? (() => null);
    this.#answerMs = options.answerMs ?? ANSWER_MS;
  }

  admit(request: LimitedRequest): Promise<LimitStatus> {
    return this.#stand(request, 'limit_admit');
  }

  /** Changes nothing. */
  look(keyId: string, { requestsPerMinute, tokensPerMinute, maxConcurrent, dailyTokens }: KeyLimits) {
    return this.#ask(this.#sql<LimitStatus>`limit_look(
      ${keyId}, ${requestsPerMinute ?? null}::bigint, ${tokensPerMinute ?? null}::bigint,
      ${maxConcurrent ?? null}::bigint, ${dailyTokens ?? null}::bigint, ${ALIVE_MS}::bigint,
      ${this.#clock()}::bigint)`);
  }

  weigh(request: LimitedRequest): Promise<LimitStatus> {
    return this.#stand(request, 'limit_weigh');
  }

  grow({ keyId, limits, moreTokens, requestId }: GrowingRequest): Promise<LimitStatus> {
    const { tokensPerMinute, dailyTokens } = limits;
    return this.#ask(this.#sql<LimitStatus>`limit_grow(
      ${keyId}, ${tokensPerMinute ?? null}::bigint, ${dailyTokens ?? null}::bigint, ${ALIVE_MS}::bigint,
      ${this.#clock()}::bigint, ${moreTokens}::bigint, ${requestId}::text, ${this.#gatewayId}::text)`);
  }

  async settle({ keyId, limits, requestId, usedTokens, served }: Settlement): Promise<void> {
    const call = this.#sql<object>`limit_settle(
      ${keyId}, ${limits.tokensPerMinute ?? null}::bigint, ${limits.dailyTokens ?? null}::bigint,
      ${this.#clock()}::bigint, ${usedTokens}::bigint, ${requestId}, ${served}::boolean)`;
    await this.#database.tables.selectFrom(call.as('settled')).selectAll().execute();
  }

  /** Reports that this gateway lives. Returns how many do. */
  async beat(): Promise<number> {
    const call = this.#sql<{ gateways: number }>`limit_beat(
      ${this.#gatewayId}, ${ALIVE_MS}::bigint, ${this.#clock()}::bigint)`;
    const selected = this.#database.tables
      .selectFrom(call.as(this.#sql`beat (gateways)`))
      .select(this.#sql<number>`gateways`.as('gateways'))
      .executeTakeFirstOrThrow();
    return (await inTime(this.#database.name, this.#answerMs, selected)).gateways;
  }

  /** Releases all requests of this gateway. */
  async leave(): Promise<void> {
    const call = this.#sql<object>`limit_leave(${this.#gatewayId})`;
    await this.#database.tables.selectFrom(call.as('left_alone')).selectAll().execute();
  }

  #stand(
    { keyId, limits, leastTokens, expectedTokens, requestId }: LimitedRequest,
    action: string,
  ): Promise<LimitStatus> {
    const { requestsPerMinute, tokensPerMinute, maxConcurrent, dailyTokens } = limits;
    const sql = this.#sql;
    return this.#ask(sql<LimitStatus>`${sql.raw(action)}(
      ${keyId}, ${requestsPerMinute ?? null}::bigint, ${tokensPerMinute ?? null}::bigint,
      ${maxConcurrent ?? null}::bigint, ${dailyTokens ?? null}::bigint, ${ALIVE_MS}::bigint,
      ${this.#clock()}::bigint, ${leastTokens}::bigint, ${expectedTokens}::bigint, ${requestId ?? null}::text,
      ${this.#gatewayId}::text)`);
  }

  #ask(call: RawBuilder<LimitStatus>): Promise<LimitStatus> {
    const selected = this.#database.tables
      .selectFrom(call.as('standing'))
      .selectAll()
      .executeTakeFirstOrThrow();
    return inTime(this.#database.name, this.#answerMs, selected);
  }
}
