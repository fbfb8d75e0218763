// Identifies callers: the holder of a key or, where there are no keys, a process on this machine. Priority comes from the
// key's tier alone.

import { isIPv4 } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Priority } from '../../engine/request.ts';
import { ANONYMOUS_KEY_ID, type KeyLimits, type Tier } from '../../store/key-record.ts';
import type { KeyRing } from '../../store/key-ring.ts';
import { isAllowed, isForeignPage, isForeignReader, isReading } from '../http/cross-origin.ts';
import { ApiError } from '../http/errors.ts';
import type { ServerSettings } from '../settings.ts';
import type { Activity } from './activity.ts';

export type Keys = Pick<KeyRing, 'findByKey' | 'findById' | 'status'>;

export interface Caller {
  readonly keyId: string;
  readonly name?: string;
  readonly tier: Tier;
  readonly admin: boolean;
  readonly limits: KeyLimits;
  /** No client waits for the answer, so that requests with waiting clients come first. */
  readonly background?: boolean;
}

const anonymous: Caller = { keyId: ANONYMOUS_KEY_ID, tier: 'normal', admin: false, limits: {} };
/** Before there are keys, callers on this machine have the rights of an admin, so that they can make the first key. */
const atThisMachine: Caller = { ...anonymous, admin: true };
const priorities: Readonly<Record<Tier, Priority>> = { high: 0, normal: 1, low: 2 };
const challenge = { 'www-authenticate': 'Bearer' };

export function callerOf({ caller }: FastifyRequest): Caller {
  if (caller === undefined) throw new Error('this route does not identify its callers');
  return caller;
}

export function priorityOf({ tier }: Caller): Priority {
  return priorities[tier];
}

export function kvShareOf(
  { limits, tier }: Pick<Caller, 'limits' | 'tier'>,
  { kvShares }: ServerSettings,
): number | undefined {
  return limits.kvShare ?? kvShares[tier];
}

export async function identify(
  request: FastifyRequest,
  keys: Keys | undefined,
  allowAnonymous: boolean,
): Promise<Caller> {
  const nowMs = Date.now();
  const status = keys === undefined ? 'none' : await keys.status(nowMs);
  if (keys === undefined || status !== 'live') {
    if (status === 'none' && isLocal(request)) return isForeignPage(request) ? anonymous : atThisMachine;
    if (allowAnonymous) return anonymous;
    throw unauthorized('missing_api_key', status === 'none' ? notLocal : everyKeyRevoked);
  }
  const key = keyOf(request);
  if (key === undefined) {
    throw unauthorized(
      'missing_api_key',
      'an API key is needed; send it as Authorization: Bearer KEY, or as x-api-key: KEY',
    );
  }
  const record = await keys.findByKey(key, nowMs);
  if (record === 'unsure') {
    const message = 'whether this API key is known cannot be found out now; try again';
    throw new ApiError(503, message, { code: 'store_unavailable', headers: { 'retry-after': '5' } });
  }
  if (record === undefined) {
    throw unauthorized('invalid_api_key', 'this API key is not known, or was revoked');
  }
  return {
    keyId: record.id,
    name: record.name,
    tier: record.tier,
    admin: record.admin,
    limits: record.limits,
  };
}

/** The caller for work that a key left to be done later, at LOW priority; undefined where the key is not served any more. */
export async function backgroundCaller(
  keyId: string,
  keys: Keys | undefined,
  allowAnonymous: boolean,
): Promise<Caller | 'unsure' | undefined> {
  const caller = await absentCaller(keyId, keys, allowAnonymous);
  return typeof caller === 'object' ? { ...caller, tier: 'low' } : caller;
}

/** The caller for a request whose client is not here; undefined where the key is not served any more. */
export async function absentCaller(
  keyId: string,
  keys: Keys | undefined,
  allowAnonymous: boolean,
): Promise<Caller | 'unsure' | undefined> {
  const nowMs = Date.now();
  const changes = { admin: false, background: true } as const;
  if (keyId === ANONYMOUS_KEY_ID) {
    const status = keys === undefined ? 'none' : await keys.status(nowMs);
    const isServed = status === 'none' || (status === 'revoked' && allowAnonymous);
    return isServed ? { ...anonymous, ...changes } : undefined;
  }
  const record = await keys?.findById(keyId, nowMs);
  if (record === undefined || record === 'unsure') return record;
  return { keyId, name: record.name, tier: record.tier, limits: record.limits, ...changes };
}

const notLocal = 'without API keys only requests from this machine to this machine are served';

/** Shown to clients, and when the server is started. */
export const everyKeyRevoked =
  'every API key was revoked, so nobody is served; make one with chairlift keys create, or start the server with --allow-anonymous';

function unauthorized(code: string, message: string): ApiError {
  return new ApiError(401, message, { code, headers: challenge });
}

export function requireAdmin({ admin }: Caller): void {
  if (admin) return;
  throw new ApiError(403, 'this needs an admin key', { code: 'admin_key_needed' });
}

/** Undefined where the server may listen on this host; otherwise why not. */
export async function bindRefusal(
  host: string,
  keys: Keys | undefined,
  allowAnonymous: boolean,
): Promise<string | undefined> {
  if (allowAnonymous || host === 'localhost' || isLoopback(host)) return undefined;
  // Where all keys were revoked no request is served.
  if (keys !== undefined && (await keys.status(Date.now())) !== 'none') return undefined;
  return `there are no API keys, so listening on ${host} would serve anyone; make a key ('chairlift keys create --name NAME'), listen on 127.0.0.1, or allow anonymous requests (--allow-anonymous)`;
}

/** Set by proxies: a request with one of them was not sent by the other end of the socket. */
const FORWARDING_HEADERS = ['x-forwarded-for', 'forwarded', 'via', 'x-real-ip'] as const;

/**
 * Whether a request comes from this machine and is addressed to it. A web page can make its own name resolve to this machine
 * and have a browser send requests, but it cannot change the host they name. A request that a proxy on this machine forwards
 * is local only where the proxy is trusted and names no other machine.
 */
function isLocal(request: FastifyRequest): boolean {
  const host = request.hostname.replace(/^\[(.*)\]$/, '$1');
  if (host !== 'localhost' && !isLoopback(host)) return false;
  // All addresses up to the first untrusted one; the socket's alone where no proxy is trusted.
  const addresses = request.ips ?? [request.socket.remoteAddress];
  const forwarded = FORWARDING_HEADERS.some((name) => request.headers[name] !== undefined);
  if (forwarded && addresses.length < 2) return false;
  return addresses.every(isLoopback);
}

/**
 * Without a key a browser would act in the name of its user, for whichever page asks it to post. A page can send a key only
 * after a preflight. What pages merely read does nothing, but for routes that say so.
 */
export function refuseForeignPage(
  request: FastifyRequest,
  corsOrigins: readonly string[],
  what?: 'even to read',
): void {
  const isForeign =
    what === undefined ? !isReading(request) && isForeignPage(request) : isForeignReader(request);
  if (!isForeign || keyOf(request) !== undefined) return;
  const { origin = 'another origin' } = request.headers;
  if (isAllowed(origin, corsOrigins)) return;
  const message = `pages of ${origin.slice(0, 128)} may not ask here; the setting corsOrigins allows it`;
  throw new ApiError(403, message, { code: 'origin_not_allowed' });
}

export function isLoopback(address: string | undefined): boolean {
  if (address === undefined) return false;
  const plain = address.replace(/^::ffff:/, '');
  return plain === '::1' || (isIPv4(plain) && plain.startsWith('127.'));
}

export function keyOf({ headers }: FastifyRequest): string | undefined {
  const bearer = /^Bearer +(\S+) *$/i.exec(headers.authorization ?? '')?.[1];
  const plain = headers['x-api-key'];
  const own = typeof plain === 'string' && plain !== '' ? plain : undefined;
  if (bearer === undefined || own === undefined || bearer === own) return bearer ?? own;
  const message = 'Authorization and x-api-key hold different keys; send one of them';
  throw unauthorized('conflicting_api_keys', message);
}

const CHECK_EVERY_MS = 250;
/** A client that does not read the end of its feed is cut off. */
const LAST_READ_MS = 2000;

interface Authority {
  readonly keys?: Keys | undefined;
  readonly settings: Pick<ServerSettings, 'allowAnonymous'>;
  readonly activity: Pick<Activity, 'abort'>;
}

export function endWithAuthority(context: Authority, request: FastifyRequest, reply: FastifyReply): void {
  const { raw } = reply;
  const timer = setInterval(async () => {
    const refusal = await refusalOf(context, request);
    const isOver = raw.destroyed || raw.writableEnded;
    if (refusal === undefined && !isOver) return;
    clearInterval(timer);
    if (refusal === undefined || isOver) return;
    // A request that runs ends with the reason; a feed just ends.
    if (context.activity.abort(request, refusal) || !raw.headersSent) return;
    raw.end();
    const cutOff = setTimeout(() => raw.destroy(), LAST_READ_MS).unref();
    raw.once('close', () => clearTimeout(cutOff));
  }, CHECK_EVERY_MS).unref();
  raw.once('close', () => clearInterval(timer));
  // A client that left while its key was looked up emits no further close event.
  if (raw.destroyed) clearInterval(timer);
}

/** While the store cannot be asked, the key keeps its right. */
async function refusalOf(
  { keys, settings }: Authority,
  request: FastifyRequest,
): Promise<ApiError | undefined> {
  try {
    requireAdmin(await identify(request, keys, settings.allowAnonymous));
    return undefined;
  } catch (error) {
    return error instanceof ApiError && error.status < 500 ? error : undefined;
  }
}
