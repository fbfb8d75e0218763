// Who asks: the holder of a key, or, where there are no keys, somebody on this machine. Priority comes from the
// key's tier alone.

import { isIPv4 } from 'node:net';
import type { FastifyRequest } from 'fastify';
import type { Priority } from '../engine/sequence.ts';
import { ANONYMOUS_KEY_ID, type KeyLimits, type Tier } from '../store/key-record.ts';
import type { KeyRing } from '../store/key-ring.ts';
import { ApiError } from './errors.ts';

export type Keys = Pick<KeyRing, 'findByKey' | 'isEmpty'>;

export interface Caller {
  readonly keyId: string;
  readonly tier: Tier;
  readonly admin: boolean;
  readonly limits: KeyLimits;
}

const anonymous: Caller = { keyId: ANONYMOUS_KEY_ID, tier: 'normal', admin: false, limits: {} };
const priorities: Readonly<Record<Tier, Priority>> = { high: 0, normal: 1, low: 2 };
const challenge = { 'www-authenticate': 'Bearer' };

export function priorityOf({ tier }: Caller): Priority {
  return priorities[tier];
}

export async function identify(
  request: FastifyRequest,
  keys: Keys | undefined,
  allowAnonymous: boolean,
): Promise<Caller> {
  const nowMs = Date.now();
  if (keys === undefined || (await keys.isEmpty(nowMs))) {
    if (allowAnonymous || isLocal(request)) return anonymous;
    const message = 'without API keys only requests from this machine to this machine are served';
    throw new ApiError(401, message, { code: 'missing_api_key', headers: challenge });
  }
  const key = bearerOf(request);
  if (key === undefined) {
    const message = 'an API key is needed; send it as Authorization: Bearer KEY';
    throw new ApiError(401, message, { code: 'missing_api_key', headers: challenge });
  }
  const record = await keys.findByKey(key, nowMs);
  if (record !== undefined) {
    return { keyId: record.id, tier: record.tier, admin: record.admin, limits: record.limits };
  }
  throw new ApiError(401, 'this API key is not known, or was revoked', {
    code: 'invalid_api_key',
    headers: challenge,
  });
}

export function requireAdmin({ admin }: Caller): void {
  if (admin) return;
  throw new ApiError(403, 'this needs an admin key', { code: 'admin_key_needed' });
}

/** Undefined where the server may listen there; otherwise why not. */
export async function bindRefusal(
  host: string,
  keys: Keys | undefined,
  allowAnonymous: boolean,
): Promise<string | undefined> {
  if (allowAnonymous || host === 'localhost' || isLoopback(host)) return undefined;
  if (keys !== undefined && !(await keys.isEmpty(Date.now()))) return undefined;
  return `there are no API keys, so listening on ${host} would serve anyone; make a key, listen on 127.0.0.1, or allow anonymous requests`;
}

/**
 * From this machine, and addressed to it: a web page can have its own name point here and a browser carry its
 * requests, but not change the host they name.
 */
function isLocal(request: FastifyRequest): boolean {
  const host = request.hostname.replace(/^\[(.*)\]$/, '$1');
  return isLoopback(request.socket.remoteAddress) && (host === 'localhost' || isLoopback(host));
}

export function isLoopback(address: string | undefined): boolean {
  if (address === undefined) return false;
  const plain = address.replace(/^::ffff:/, '');
  return plain === '::1' || (isIPv4(plain) && plain.startsWith('127.'));
}

function bearerOf(request: FastifyRequest): string | undefined {
  return /^Bearer +(\S+) *$/i.exec(request.headers.authorization ?? '')?.[1];
}
