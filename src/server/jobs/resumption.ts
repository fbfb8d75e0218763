// Answers that a client comes back to: it names its request and the last event it has, at this server or at another one that
// keeps the same archive, and receives the rest. Whatever chance decided is kept, so that the answer is the same.

import type { FastifyRequest } from 'fastify';
import type { Seed } from '../../sampling/random.ts';
import type { ServerContext } from '../context.ts';
import { ApiError, badRequest } from '../http/errors.ts';
import type { Caller } from '../request/auth.ts';
import { StreamPosition } from './stream-position.ts';

export interface KeptRequest {
  /** As the client knows it. */
  readonly id: string;
  readonly keyId: string;
  /** Where it was sent to. */
  readonly route: string;
  /** JSON. */
  readonly body: string;
  readonly answerId: string;
  readonly seed: Seed;
  /** Milliseconds since 1970. */
  readonly arrivedMs: number;
  /** What of it was counted as used; absent while nobody has. */
  readonly counted?: CountedTokens | undefined;
}

export interface CountedTokens {
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
}

/** Requests that have begun, for as long as their clients may come back. */
export interface RequestArchive {
  keep(request: KeptRequest): Promise<void>;
  /** Of this key alone; undefined where it is not known, or not any more. */
  find(keyId: string, id: string): Promise<KeptRequest | undefined>;
}

export interface Resumption {
  readonly kept: KeptRequest;
  /** What the client has. */
  readonly after: StreamPosition;
}

/** What the client comes back to, where it says that it does. */
export async function resumptionOf(
  { archive }: ServerContext,
  request: FastifyRequest,
): Promise<Resumption | undefined> {
  const given = request.headers['last-event-id'];
  if (archive === undefined || given === undefined) return undefined;
  const after = StreamPosition.parse(String(given));
  if (after === undefined) throw badRequest('Last-Event-ID', `'${given}' is no id of an event`);
  const { keyId } = request.caller as Caller;
  const kept = await archive.find(keyId, request.id);
  const route = request.routeOptions.url ?? '';
  if (kept === undefined || kept.route !== route) {
    const message = `no request ${request.id} to ${route} is known: it was never begun, or too long ago`;
    throw new ApiError(404, message, { code: 'unknown_request' });
  }
  if (request.body !== undefined && request.body !== null && JSON.stringify(request.body) !== kept.body) {
    const message = `request ${request.id} had another body; send the same, or none`;
    throw new ApiError(409, message, { code: 'different_body' });
  }
  return { kept, after };
}
