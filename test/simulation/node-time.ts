// Puts simulated time in the place of Node's for all that takes it from there, the HTTP edge and the stores: each process of the
// simulation has its own. Import it before what it should reach; nothing real may be waited for while it is in place.

import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers/promises';
import type { Timer } from '../../src/runtime/clock.ts';
import type { SimulatedProcess } from './process.ts';

interface Handle {
  end(): void;
  ref(): Handle;
  unref(): Handle;
  hasRef(): boolean;
  refresh(): Handle;
}

interface SleepOptions {
  readonly signal?: AbortSignal;
}

function handleOf(begin: () => Timer): Handle {
  let timer = begin();
  const handle: Handle = {
    end: () => timer.end(),
    ref: () => handle,
    unref: () => handle,
    hasRef: () => true,
    refresh: () => {
      timer.end();
      timer = begin();
      return handle;
    },
  };
  return handle;
}

/** `current`: whose code runs now. Returns what puts Node's back. */
export function replaceNodeTime(current: () => SimulatedProcess): () => void {
  const clock = () => current().clock;
  const sleep = (durationMs: number, value?: unknown, { signal }: SleepOptions = {}) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const timer = clock().after(durationMs, () => resolve(value));
      signal?.addEventListener('abort', () => {
        timer.end();
        reject(signal.reason);
      });
    });
  const end = (handle: Handle | undefined) => handle?.end?.();
  return replaceAll([
    [Date, { now: () => clock().wallMs() }],
    [performance, { now: () => clock().monotonicMs() }],
    [
      globalThis,
      {
        setTimeout: (run: (...given: unknown[]) => void, durationMs = 1, ...given: unknown[]) => {
          const own = clock();
          return handleOf(() => own.after(durationMs, () => run(...given)));
        },
        setInterval: (run: (...given: unknown[]) => void, periodMs = 1, ...given: unknown[]) => {
          const own = clock();
          return handleOf(() => own.every(periodMs, () => run(...given)));
        },
        setImmediate: (run: (...given: unknown[]) => void, ...given: unknown[]) => {
          let isEnded = false;
          clock().soon(() => isEnded || run(...given));
          return { end: () => (isEnded = true), unref: () => {}, ref: () => {} };
        },
        clearTimeout: end,
        clearInterval: end,
        clearImmediate: end,
      },
    ],
    [
      timers,
      {
        setTimeout: sleep,
        setImmediate: (value?: unknown) => new Promise((resolve) => clock().soon(() => resolve(value))),
      },
    ],
    [
      crypto,
      {
        randomBytes: (count: number) => Buffer.from(current().randomBytes(count)),
        randomUUID: () => uuidOf(current().randomBytes(16)),
      },
    ],
  ]);
}

function replaceAll(all: readonly (readonly [object, Record<string, unknown>])[]): () => void {
  const before = all.map(([target, members]) => {
    const own = target as Record<string, unknown>;
    const kept = Object.fromEntries(Object.keys(members).map((name) => [name, own[name]]));
    Object.assign(own, members);
    return [own, kept] as const;
  });
  syncBuiltinESMExports();
  return () => {
    for (const [target, kept] of before) Object.assign(target, kept);
    syncBuiltinESMExports();
  };
}

function uuidOf(bytes: Uint8Array): string {
  const text = Buffer.from(bytes).toString('hex');
  return [text.slice(0, 8), text.slice(8, 12), text.slice(12, 16), text.slice(16, 20), text.slice(20)].join(
    '-',
  );
}
