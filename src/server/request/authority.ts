// Ends the response of an admin route when its key loses the right: feeds, pulls and benchmarks may run for days, and the key
// may be revoked meanwhile. Checked here for every admin route, so that none can forget it.

import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ServerContext } from '../context.ts';
import { ApiError } from '../http/errors.ts';
import { identify, requireAdmin } from './auth.ts';

const CHECK_EVERY_MS = 250;
/** A client that does not read the end of its feed is cut off. */
const LAST_READ_MS = 2000;

/** Checks the right from now until the response is over. */
export function endWithAuthority(context: ServerContext, request: FastifyRequest, reply: FastifyReply): void {
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
