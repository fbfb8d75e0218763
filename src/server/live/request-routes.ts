// GET /requests and /requests/{id}: the last requests and the life of one. An admin sees all, another key its own.

import type { FastifyInstance, FastifyRequest } from 'fastify';
import { ANONYMOUS_KEY_ID } from '../../store/key-record.ts';
import type { ServerContext } from '../context.ts';
import { ApiError, badRequest } from '../http/errors.ts';
import type { Caller } from '../request/auth.ts';
import type { PrefixLookup, RequestLife } from './live-event.ts';
import type { KeptLookup, Life } from './request-traces.ts';

export function requestRoutes(app: FastifyInstance, { lives }: ServerContext): void {
  app.get('/requests', async (request) => {
    const { model } = request.query as Readonly<Record<string, unknown>>;
    if (model !== undefined && typeof model !== 'string') throw badRequest('model', 'give one name');
    const shown = lives.all().filter((life) => maySee(request, life));
    const nowMs = performance.now();
    const data = shown.filter(({ of }) => model === undefined || of.model === model);
    return { object: 'list', data: data.map((life) => life.brief(nowMs)) };
  });
  app.get<{ Params: { id: string } }>('/requests/:id', async (request) => {
    const { id } = request.params;
    // Ids are the clients' own where they give some: of several the newest.
    const life = lives.all().find((one) => one.of.requestId === id && maySee(request, one));
    if (life !== undefined) return lifeOf(life, request.caller as Caller);
    throw new ApiError(404, 'there is no such request, or it was too long ago', {
      code: 'request_not_found',
    });
  });
}

/** Those without a key are told apart by where they are. */
function maySee(request: FastifyRequest, { of }: Life): boolean {
  const { admin, keyId } = request.caller as Caller;
  if (admin) return true;
  return of.keyId === keyId && (keyId !== ANONYMOUS_KEY_ID || of.address === request.ip);
}

function lifeOf(life: Life, { admin }: Caller): RequestLife {
  const { prompt } = life.of;
  return {
    ...life.brief(performance.now()),
    events: life.events,
    lookups: life.lookups.map((lookup) => lookupOf(lookup, admin)),
    ...(prompt === undefined ? {} : { prompt }),
    endReasons: life.end?.reasons ?? [],
  };
}

/** That somebody else has asked the same is told to admins alone. */
function lookupOf({ elsewhere, firstDifference, ...lookup }: KeptLookup, admin: boolean): PrefixLookup {
  if (admin && elsewhere === true) return { ...lookup, why: 'tenant' };
  return { ...lookup, ...(firstDifference === undefined ? {} : { firstDifference }) };
}
