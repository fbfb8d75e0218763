// The limits of keys where several gateways share them: where a key stands, in one round trip to the database, which
// decides under the key's lock. What a refusal means for a client is for others to say.

import type { RawBuilder } from 'kysely';
import { type Database, inTime } from './database.ts';
import type { KeyLimits } from './key-record.ts';

/** A request waits for its answer. */
const ANSWER_MS = 1000;
/** A gateway that was not seen for so long is dead. */
const ALIVE_MS = 15_000;

interface LimitedRequest {
  readonly keyId: string;
  readonly limits: KeyLimits;
  /** What it needs for certain. */
  readonly leastTokens: number;
  readonly expectedTokens: number;
  /** Undefined where it takes no place. */
  readonly requestId: string | undefined;
}

interface GrowingRequest {
  readonly keyId: string;
  readonly limits: KeyLimits;
  /** As many as it would have. */
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

/** Where a key stands, on the database's clock. What is used of limits a minute is in 1/60000. */
export interface LimitStanding {
  readonly ok: boolean;
  readonly now_ms: number;
  readonly requests_used: number;
  readonly tokens_used: number;
  /** With what was carried over. */
  readonly day_tokens: number;
  readonly reserved_tokens: number;
  /** Of this request, by this call. */
  readonly held_tokens: number;
  readonly running: number;
  readonly oldest_ms: number | null;
  readonly mean_ms: number | null;
}

type Sql = typeof import('kysely')['sql'];

interface LimitStoreOptions {
  /** Stands in for the database's own. */
  readonly clock?: (() => number) | undefined;
  /** How long an answer may take. Default a second. */
  readonly answerMs?: number;
}

export class LimitStore {
  readonly #database: Database;
  readonly #gatewayId: string;
  readonly #sql: Sql;
  readonly #clock: () => number | null;
  readonly #answerMs: number;

  private constructor(database: Database, gatewayId: string, sql: Sql, options: LimitStoreOptions) {
    this.#database = database;
    this.#gatewayId = gatewayId;
    this.#sql = sql;
    this.#clock = options.clock ?? (() => null);
    this.#answerMs = options.answerMs ?? ANSWER_MS;
  }

  static async open(
    database: Database,
    gatewayId: string,
    options: LimitStoreOptions = {},
  ): Promise<LimitStore> {
    const { sql } = await import('kysely');
    return new LimitStore(database, gatewayId, sql, options);
  }

  admit(request: LimitedRequest): Promise<LimitStanding> {
    return this.#stand(request, 'limit_admit');
  }

  weigh(request: LimitedRequest): Promise<LimitStanding> {
    return this.#stand(request, 'limit_weigh');
  }

  grow({ keyId, limits, moreTokens, requestId }: GrowingRequest): Promise<LimitStanding> {
    const { tokensPerMinute, dailyTokens } = limits;
    return this.#ask(this.#sql<LimitStanding>`limit_grow(
      ${keyId}, ${tokensPerMinute ?? null}::bigint, ${dailyTokens ?? null}::bigint, ${ALIVE_MS}::bigint,
      ${this.#clock()}::bigint, ${moreTokens}::bigint, ${requestId}::text, ${this.#gatewayId}::text)`);
  }

  async settle({ keyId, limits, requestId, usedTokens, served }: Settlement): Promise<void> {
    const call = this.#sql<object>`limit_settle(
      ${keyId}, ${limits.tokensPerMinute ?? null}::bigint, ${limits.dailyTokens ?? null}::bigint,
      ${this.#clock()}::bigint, ${usedTokens}::bigint, ${requestId}, ${served}::boolean)`;
    await this.#database.tables.selectFrom(call.as('settled')).selectAll().execute();
  }

  /** Says that this gateway lives; how many do. */
  async beat(): Promise<number> {
    const call = this.#sql<{ gateways: number }>`limit_beat(
      ${this.#gatewayId}, ${ALIVE_MS}::bigint, ${this.#clock()}::bigint)`;
    const selected = this.#database.tables
      .selectFrom(call.as(this.#sql`beat (gateways)`))
      .select(this.#sql<number>`gateways`.as('gateways'))
      .executeTakeFirstOrThrow();
    return (await inTime(this.#database.name, this.#answerMs, selected)).gateways;
  }

  /** Whatever this gateway had running no longer counts. */
  async leave(): Promise<void> {
    const call = this.#sql<object>`limit_leave(${this.#gatewayId})`;
    await this.#database.tables.selectFrom(call.as('left_alone')).selectAll().execute();
  }

  #stand(
    { keyId, limits, leastTokens, expectedTokens, requestId }: LimitedRequest,
    action: string,
  ): Promise<LimitStanding> {
    const { requestsPerMinute, tokensPerMinute, maxConcurrent, dailyTokens } = limits;
    const sql = this.#sql;
    return this.#ask(sql<LimitStanding>`${sql.raw(action)}(
      ${keyId}, ${requestsPerMinute ?? null}::bigint, ${tokensPerMinute ?? null}::bigint,
      ${maxConcurrent ?? null}::bigint, ${dailyTokens ?? null}::bigint, ${ALIVE_MS}::bigint,
      ${this.#clock()}::bigint, ${leastTokens}::bigint, ${expectedTokens}::bigint, ${requestId ?? null}::text,
      ${this.#gatewayId}::text)`);
  }

  #ask(call: RawBuilder<LimitStanding>): Promise<LimitStanding> {
    const selected = this.#database.tables
      .selectFrom(call.as('standing'))
      .selectAll()
      .executeTakeFirstOrThrow();
    return inTime(this.#database.name, this.#answerMs, selected);
  }
}
