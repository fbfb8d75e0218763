// The last requests that were refused: which key, what they asked for, and why.

import type { FastifyRequest } from 'fastify';
import type { ApiError } from '../http/errors.ts';
import type { RefusedRequest } from './live-event.ts';

const MOST = 500;
const MOST_CHARACTERS = 300;

export interface KeptRefusal {
  readonly shown: RefusedRequest;
  readonly keyId: string | undefined;
  readonly address: string;
}

export class Refusals {
  readonly #kept: KeptRefusal[] = [];

  add({ id, method, routeOptions, caller, ip }: FastifyRequest, { status, code, message }: ApiError): void {
    const shown: RefusedRequest = {
      requestId: id,
      atMs: Date.now(),
      // The route, not the address: that may hold anything.
      route: `${method} ${routeOptions.url ?? ''}`,
      status,
      ...(code === undefined ? {} : { code }),
      reason: message.slice(0, MOST_CHARACTERS),
      ...(caller?.name === undefined ? {} : { keyName: caller.name }),
    };
    this.#kept.push({ shown, keyId: caller?.keyId, address: ip });
    if (this.#kept.length > MOST) this.#kept.shift();
  }

  /** The newest first. */
  all(): KeptRefusal[] {
    return this.#kept.toReversed();
  }
}
