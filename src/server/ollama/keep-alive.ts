// `keep_alive`: how long a model stays loaded while it is unused. A request without a prompt loads its model or, where
// keep_alive is 0, unloads it.

import type { FastifyReply, FastifyRequest } from 'fastify';
import { ANONYMOUS_KEY_ID } from '../../store/key-record.ts';
import type { ServerContext } from '../context.ts';
import { ApiError, badRequest } from '../http/errors.ts';
import { NO_TOKENS } from '../limits/key-limiter.ts';
import { type Caller, callerOf } from '../request/auth.ts';
import { withRequestScope } from '../request/request-scope.ts';
import { findModel } from './names.ts';

const unitMs: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  μs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

const part = /(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)/g;

/** Reads seconds, as a number or a text, or a duration as Go writes it: `1h30m`. Below 0 means for ever. */
export function durationMs(given: number | string): number {
  const text = String(given).trim();
  const seconds = text === '' ? Number.NaN : Number(text);
  if (!Number.isNaN(seconds)) return seconds < 0 ? Number.POSITIVE_INFINITY : seconds * 1000;
  const [, sign, parts = ''] = /^([+-]?)(.*)$/s.exec(text) ?? [];
  if (parts === '' || parts.replaceAll(part, '') !== '') {
    throw badRequest('keep_alive', 'must be seconds, or a duration such as "5m" or "1h30m"');
  }
  const sum = [...parts.matchAll(part)].reduce(
    (total, [, count, unit]) => total + Number(count) * (unitMs[unit as string] as number),
    0,
  );
  return sign === '-' && sum > 0 ? Number.POSITIVE_INFINITY : sum;
}

/** A plain key must not unload a model that others use; where there are no keys, every caller may. */
export function decidesKeepAlive({ admin, keyId }: Caller): boolean {
  return admin || keyId === ANONYMOUS_KEY_ID;
}

export function idleMsOf(given: number | string | undefined, caller: Caller): number | undefined {
  if (given === undefined) return undefined;
  const idleMs = durationMs(given);
  return decidesKeepAlive(caller) ? idleMs : undefined;
}

export async function loadOrUnload(
  context: ServerContext,
  { model, keep_alive }: { readonly model: string; readonly keep_alive?: number | string | undefined },
  answer: (reason: 'load' | 'unload') => object,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<object> {
  const { name, state, pinned, upstream } = findModel(context, model);
  const caller = callerOf(request);
  const unloads = keep_alive !== undefined && durationMs(keep_alive) === 0;
  // Clients load a model before they use it; one that is elsewhere is always there.
  if (upstream !== undefined) return answer(unloads ? 'unload' : 'load');
  if (unloads) {
    refuseUnload(caller, model, pinned);
    if (state === 'loaded') await unload(context, name);
    return answer('unload');
  }
  const idleMs = idleMsOf(keep_alive, caller);
  const options = { modelName: name, demand: NO_TOKENS, sequences: 0, idleMs };
  return withRequestScope({ context, request, reply, caller }, options, async () => answer('load'));
}

function refuseUnload(caller: Caller, model: string, pinned: boolean): void {
  if (!decidesKeepAlive(caller)) {
    throw new ApiError(403, 'unloading a model needs an admin key', { code: 'admin_key_needed' });
  }
  if (pinned) {
    throw new ApiError(409, `model '${model}' is pinned by the server's settings`, { code: 'model_pinned' });
  }
}

async function unload({ pool }: ServerContext, name: string): Promise<void> {
  if (await pool.unload(name)) return;
  // A model that is being evicted for another is unloaded anyway.
  const held = await pool.acquire(name, { atOnce: true });
  if (held.ok) held.lease.release(0);
}
