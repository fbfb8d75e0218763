// Several streams read as one, in the order their values come. An abort ends it at once with the signal's
// reason, even where no stream moves. Streams are read to their end all the same, and `heard` hears all of it.

import { setImmediate } from 'node:timers/promises';
import type { EngineHandle } from '../pool/engine-handle.ts';

/** Streams that are opened before it is others' turn: there may be thousands. */
const OPENED_AT_ONCE = 32;

/** `streams` is asked for one after the other; where this ends early, for no more. */
export async function* mergeStreams<Value>(
  streams: Iterable<AsyncGenerator<Value, void, void>>,
  signal: AbortSignal,
  heard: (stream: number, value: Value) => void = () => {},
): AsyncGenerator<readonly [stream: number, value: Value], void, void> {
  const ready: (readonly [number, Value])[] = [];
  /** One more while streams are being opened. */
  let open = 1;
  let ended = false;
  let failure: { readonly error: unknown } | undefined;
  let wake: (() => void) | undefined;
  const abort = () => {
    failure ??= { error: signal.reason };
    wake?.();
  };
  const pump = async (stream: AsyncGenerator<Value, void, void>, index: number) => {
    try {
      for await (const value of stream) {
        heard(index, value);
        ready.push([index, value]);
        wake?.();
      }
    } catch (error) {
      failure ??= { error };
    }
    open--;
    wake?.();
  };
  const openAll = async () => {
    let count = 0;
    try {
      for (const stream of streams) {
        open++;
        pump(stream, count++);
        if (count % OPENED_AT_ONCE === 0) await setImmediate();
        if (ended) break;
      }
    } catch (error) {
      failure ??= { error };
    }
    open--;
    wake?.();
  };
  signal.addEventListener('abort', abort, { once: true });
  try {
    if (signal.aborted) abort();
    // Streams are read to their end whatever happens here, so that none is left open.
    else void openAll();
    while (open > 0 || ready.length > 0 || failure !== undefined) {
      if (failure !== undefined) throw failure.error;
      yield* ready.splice(0);
      if (ready.length > 0 || failure !== undefined || open === 0) continue;
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
      wake = undefined;
    }
  } finally {
    ended = true;
    signal.removeEventListener('abort', abort);
  }
}

const CANCELLED_AT_ONCE = 256;

export async function cancelAll(engine: Pick<EngineHandle, 'cancel'>, ids: Iterable<string>): Promise<void> {
  let count = 0;
  for (const id of ids) {
    engine.cancel(id);
    if (++count % CANCELLED_AT_ONCE === 0) await setImmediate();
  }
}
