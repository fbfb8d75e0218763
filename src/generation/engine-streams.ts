// Streams of an engine's events: several merged into one, in the order of arrival, and cancelled in batches.

import { setImmediate } from 'node:timers/promises';
import type { EngineClient } from '../engine/engine-client.ts';

/** Streams opened before the event loop runs again: there may be thousands. */
const OPENED_AT_ONCE = 32;

/**
 * An abort ends the merged stream at once. Each stream is still read to its end, and `heard` gets every value. Opens
 * streams lazily, none after an early end.
 */
export async function* mergeStreams<Value>(
  streams: Iterable<AsyncGenerator<Value, void, void>>,
  signal: AbortSignal,
  heard: (stream: number, value: Value) => void = () => {},
): AsyncGenerator<readonly [stream: number, value: Value], void, void> {
  const ready: (readonly [number, Value])[] = [];
  /** Counts one more while streams are being opened. */
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

/** Lets the event loop run in between: there may be thousands. */
export async function cancelAll(engine: Pick<EngineClient, 'cancel'>, ids: Iterable<string>): Promise<void> {
  let count = 0;
  for (const id of ids) {
    engine.cancel(id);
    if (++count % CANCELLED_AT_ONCE === 0) await setImmediate();
  }
}
