// GET /usage: what a key has used, what is left of its limits, and why its requests were refused of late. An admin sees all
// keys, or the one they name.

import type { FastifyRequest } from 'fastify';
import { ANONYMOUS_KEY_ID, type KeyLimits, type KeyRecord, type Tier } from '../../store/key-record.ts';
import type { UsageQuery, UsageRow } from '../../store/usage-report.ts';
import type { UsageStore } from '../../store/usage-store.ts';
import type { ServerContext } from '../context.ts';
import { ApiError, badRequest, fromStore } from '../http/errors.ts';
import type { RemainingLimit } from '../limits/key-limiter.ts';
import type { KeptRefusal } from '../live/refusals.ts';
import { maySee } from '../live/routes.ts';
import { callerOf, kvShareOf } from '../request/auth.ts';
import type { Route } from '../route.ts';

export interface UsageKey {
  readonly id: string;
  /** Absent for requests without a key. */
  readonly name?: string;
  readonly tier: Tier;
  readonly limits: KeyLimits;
  readonly revoked: boolean;
}

/** Refusals for one reason, among the last that the server keeps. */
export interface RefusalCount {
  readonly status: number;
  readonly code?: string;
  readonly count: number;
  readonly lastMs: number;
  /** Of the last one. */
  readonly reason: string;
}

export interface UsageReport {
  /** Whose it is; absent where it is that of all keys. */
  readonly key?: UsageKey;
  /** For admins: every key that may be asked for. */
  readonly keys?: readonly UsageKey[];
  readonly data: readonly UsageRow[];
  /** Of the one key. */
  readonly limits: readonly RemainingLimit[];
  /** The part of a model's KV blocks that the one key may hold. */
  readonly kvShare?: number;
  readonly refusals: readonly RefusalCount[];
}

export function usageRoute(context: ServerContext): Route {
  return {
    method: 'GET',
    url: '/usage',
    access: 'key',
    atBothAddresses: true,
    summary:
      "The key's usage by day, and what is left of its limits; an admin sees all keys; from and to are days, key an id",
    handler: async (request) => ({ object: 'usage', ...(await report(context, request)) }),
  };
}

async function report(context: ServerContext, request: FastifyRequest): Promise<UsageReport> {
  const store = usageStoreOf(context);
  const days = daysOf(request);
  const { admin } = callerOf(request);
  const keys = admin ? await keysOf(context) : undefined;
  const key = chosenKey(request, keys);
  const nowMs = Date.now();
  const rows = await fromStore('usage', () => store.report({ ...days, ...(key && { keyIds: [key.id] }) }));
  const refused = context.refusals
    .all()
    .filter((one) => maySee(request, one) && (key === undefined || one.keyId === key.id));
  const kvShare = key && kvShareOf(key, context.settings);
  return {
    ...(key && { key }),
    ...(keys && { keys }),
    data: rows,
    limits: key === undefined ? [] : await context.limiter.remaining(key.id, key.limits, nowMs),
    ...(kvShare === undefined ? {} : { kvShare }),
    refusals: countedRefusals(refused),
  };
}

/** Revoked ones, too: their usage stays. */
async function keysOf({ keyStore }: ServerContext): Promise<UsageKey[]> {
  const records = await fromStore('keys', async () => (await keyStore?.list()) ?? []);
  return [...records.map(keyOf), withoutKey];
}

const withoutKey: UsageKey = { id: ANONYMOUS_KEY_ID, tier: 'normal', limits: {}, revoked: false };

function keyOf({ id, name, tier, limits, revokedMs }: KeyRecord): UsageKey {
  return { id, name, tier, limits, revoked: revokedMs !== undefined };
}

/** Undefined for all keys, which only an admin may ask for. */
function chosenKey(request: FastifyRequest, keys: readonly UsageKey[] | undefined): UsageKey | undefined {
  const { keyId, name, tier, limits } = callerOf(request);
  const { key: asked } = request.query as Readonly<Record<string, unknown>>;
  if (asked !== undefined && typeof asked !== 'string') throw badRequest('key', 'give one id');
  if (keys === undefined) {
    if (asked !== undefined && asked !== keyId) throw noSuchKey(asked);
    return { id: keyId, ...(name === undefined ? {} : { name }), tier, limits, revoked: false };
  }
  const found = keys.find(({ id }) => id === asked);
  if (found === undefined && asked !== undefined) throw noSuchKey(asked);
  return found;
}

/** The same for a key that there is not and for one that the caller may not see. */
function noSuchKey(id: string): ApiError {
  const message = `there is no key '${id.slice(0, 128)}' whose usage this key may see`;
  return new ApiError(404, message, { param: 'key', code: 'key_not_found' });
}

/** The most frequent first. `kept` has the newest first. */
export function countedRefusals(kept: readonly KeptRefusal[]): RefusalCount[] {
  const counts = new Map<string, RefusalCount>();
  for (const { shown } of kept) {
    const { status, code, reason, atMs } = shown;
    const slot = `${status} ${code ?? ''}`;
    const before = counts.get(slot);
    const last = { status, ...(code === undefined ? {} : { code }), reason, lastMs: atMs };
    counts.set(slot, { ...(before ?? last), count: (before?.count ?? 0) + 1 });
  }
  return [...counts.values()].sort((a, b) => b.count - a.count);
}

export function usageStoreOf({ usage }: ServerContext): Pick<UsageStore, 'report'> {
  if (usage !== undefined) return usage;
  throw new ApiError(501, 'this server keeps no usage', { code: 'no_usage_store' });
}

export function daysOf(request: FastifyRequest): Pick<UsageQuery, 'fromDay' | 'toDay'> {
  const { from, to } = request.query as Readonly<Record<string, unknown>>;
  const fromDay = dayOf('from', from);
  const toDay = dayOf('to', to);
  return { ...(fromDay === undefined ? {} : { fromDay }), ...(toDay === undefined ? {} : { toDay }) };
}

function dayOf(name: string, value: unknown): string | undefined {
  if (value === undefined) return undefined;
  if (typeof value === 'string' && /^\d{4}-\d\d-\d\d$/.test(value)) return value;
  throw badRequest(name, 'must be a day, as in 2026-01-31');
}
