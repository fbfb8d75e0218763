// `keep_alive`: how long a model stays loaded when nobody uses it after a request.

import { ANONYMOUS_KEY_ID } from '../../store/key-record.ts';
import { badRequest } from '../http/errors.ts';
import type { Caller } from '../request/auth.ts';

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

/** Seconds, as a number or a text, or a duration as Go writes it: `1h30m`. Below 0 is for ever. */
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

/** What others use is not one key's to unload; where there are no keys, whoever is served may. */
export function decidesStay({ admin, keyId }: Caller): boolean {
  return admin || keyId === ANONYMOUS_KEY_ID;
}

/** Undefined where the request leaves it as it is. */
export function idleMsOf(given: number | string | undefined, caller: Caller): number | undefined {
  if (given === undefined) return undefined;
  const idleMs = durationMs(given);
  return decidesStay(caller) ? idleMs : undefined;
}
