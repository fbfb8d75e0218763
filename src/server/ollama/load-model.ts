// A request without a prompt: it loads its model, or, where keep_alive is 0, unloads it.

import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ServerContext } from '../context.ts';
import { ApiError } from '../http/errors.ts';
import { NO_TOKENS } from '../limits/key-limiter.ts';
import type { Caller } from '../request/auth.ts';
import { stay, withModel } from '../request/request-scope.ts';
import { decidesStay, durationMs, idleMsOf } from './keep-alive.ts';
import { findModel } from './names.ts';

export async function loadOrUnload(
  context: ServerContext,
  { model, keep_alive }: { readonly model: string; readonly keep_alive?: number | string | undefined },
  answer: (reason: 'load' | 'unload') => object,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<object> {
  const { name, state, pinned } = findModel(context, model);
  const caller = request.caller as Caller;
  if (keep_alive !== undefined && durationMs(keep_alive) === 0) {
    refuseUnload(caller, model, pinned);
    if (state === 'loaded') await unload(context, name);
    return answer('unload');
  }
  return stay(context, request, reply, NO_TOKENS, ({ signal }) =>
    withModel(context, name, signal, async () => answer('load'), { idleMs: idleMsOf(keep_alive, caller) }),
  );
}

function refuseUnload(caller: Caller, model: string, pinned: boolean): void {
  if (!decidesStay(caller)) {
    throw new ApiError(403, 'unloading a model needs an admin key', { code: 'admin_key_needed' });
  }
  if (pinned) {
    throw new ApiError(409, `model '${model}' is pinned by the server's settings`, { code: 'model_pinned' });
  }
}

/** At once, or when the last request that uses it has ended. */
async function unload({ pool }: ServerContext, name: string): Promise<void> {
  if (await pool.unload(name)) return;
  // One that makes way for another leaves anyway.
  const held = await pool.acquire(name, { atOnce: true });
  if (held.ok) held.lease.release(0);
}
