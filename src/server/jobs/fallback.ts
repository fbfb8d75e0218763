// When a request for a model that is here goes to an upstream: the model is not loaded yet, cannot be, or has a queue that
// would take longer than the operator allows.

import { loadOf } from '../../engine/engine-client.ts';
import type { AcquireFailure, ModelLease, ModelPool } from '../../pool/model-pool.ts';
import { orAbort, within } from '../../runtime/timers.ts';
import { ApiError, acquireError } from '../http/errors.ts';
import type { FallbackReason } from '../live/live-event.ts';
import { priorityOf } from '../request/auth.ts';
import type { CompletionRequest } from './completion-request.ts';

/** Why a request does not wait for its model. */
export class FallBack extends Error {
  override readonly name = 'FallBack';
  readonly reason: FallbackReason;

  constructor(reason: FallbackReason) {
    super(`the request goes to an upstream: ${reason}`);
    this.reason = reason;
  }
}

/** Undefined for errors that no other server would mend. */
export function reasonOf(error: unknown): FallbackReason | undefined {
  if (error instanceof FallBack) return error.reason;
  return error instanceof ApiError && error.code === 'queue_full' ? 'queue-full' : undefined;
}

/** A model that is loaded is given within this time. */
const GRACE_MS = 50;
const STATS_MS = 500;

/** Throws FallBack where the model is not there in time. Its load goes on, so that later requests find it. */
export async function acquireOrFallBack(
  pool: ModelPool,
  name: string,
  signal: AbortSignal,
  background = false,
  waitMs = 0,
): Promise<ModelLease> {
  const asked = new AbortController();
  const leave = () => asked.abort(signal.reason);
  signal.addEventListener('abort', leave, { once: true });
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), Math.max(GRACE_MS, waitMs));
  });
  const acquiring = pool.acquire(name, { signal: asked.signal, background });
  const giveBack = () => void acquiring.then((result) => result.ok && result.lease.release());
  try {
    const result = await orAbort(Promise.race([acquiring, late]), signal, giveBack);
    if (result === undefined) {
      giveBack();
      throw new FallBack('loading');
    }
    if (result.ok) return result.lease;
    if (result.failure === 'no-memory') throw new FallBack('does-not-fit');
    if (isLocalFault(result.failure)) throw new FallBack('failed');
    throw acquireError(result.failure, result.message, name);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', leave);
  }
}

function isLocalFault(failure: AcquireFailure): boolean {
  return failure === 'load-failed' || failure === 'engine-died' || failure === 'away';
}

/** Whether requests of this tier would wait longer than this for their first step, by what was measured lately. */
export async function expectsLongWait(
  { context, entry, caller, forceLow }: CompletionRequest,
  waitMs: number,
): Promise<boolean> {
  const served = context.pool.loaded().find(({ name }) => name === (entry.adapterOf ?? entry.name));
  if (served === undefined) return false;
  const load = await within(loadOf(served.engine), STATS_MS).catch(() => undefined);
  const own = forceLow ? 2 : priorityOf(caller);
  const ahead = (load?.queues ?? []).reduce(
    (sum, { priority, waiting }) => (priority <= own ? sum + waiting : sum),
    0,
  );
  if (ahead === 0) return false;
  const tier = forceLow ? 'low' : caller.tier;
  return (context.traces.expectedMs(served.engine, tier, ahead) ?? 0) > waitMs;
}
