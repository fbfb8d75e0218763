// What was opened with an admin key ends with its right: feeds, pulls and benchmarks may run for days, and the key be
// revoked meanwhile. Asked here for every admin route, so that none can forget it.

import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ServerContext } from '../context.ts';
import { ApiError } from '../http/errors.ts';
import { identify, requireAdmin } from './auth.ts';

const CHECK_EVERY_MS = 250;
/** A client that does not read the end of its feed is cut off. */
const LAST_READ_MS = 2000;

/** From when an admin was let in until its response is over. */
export function endWithAuthority(context: ServerContext, request: FastifyRequest, reply: FastifyReply): void {
  const { raw } = reply;
  const timer = setInterval(async () => {
    const refusal = await refusalOf(context, request);
    const isOver = raw.destroyed || raw.writableEnded;
    if (refusal === undefined && !isOver) return;
    clearInterval(timer);
    if (refusal === undefined || isOver) return;
    // A job is ended with its reason; a feed has nothing more to say.
    if (context.activity.abort(request, refusal) || !raw.headersSent) return;
    raw.end();
    const cutOff = setTimeout(() => raw.destroy(), LAST_READ_MS).unref();
    raw.once('close', () => clearTimeout(cutOff));
  }, CHECK_EVERY_MS).unref();
  raw.once('close', () => clearInterval(timer));
  // Gone while its key was looked up: nobody hears of its leaving again.
  if (raw.destroyed) clearInterval(timer);
}

/** Where nobody can find out whether the key still has its right, it has. */
async function refusalOf(
  { keys, settings }: ServerContext,
  request: FastifyRequest,
): Promise<ApiError | undefined> {
  try {
    requireAdmin(await identify(request, keys, settings.allowAnonymous));
    return undefined;
  } catch (error) {
    return error instanceof ApiError && error.status < 500 ? error : undefined;
  }
}
