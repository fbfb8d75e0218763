// Clients that come back for the rest of a stream which the end of the server has broken off: what they have in the end must be
// the whole answer.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Account } from './accounts.ts';
import { type Exchange, exchange, patient } from './exchange.ts';

const AGAIN_MS = 200;

/** What has come of a stream that can be gone on with, and where it stands. */
interface Standing {
  readonly text: string;
  readonly requestId: string;
  readonly eventId: string;
}

/** Undefined where its events have no ids, as where the server could not keep it, or nothing had come. */
export function standingOf({ status, text, headers }: Exchange): Standing | undefined {
  const requestId = headers['x-request-id'];
  if (status !== 200 || typeof requestId !== 'string') return undefined;
  // What has no id belongs to the end of the connection, not to the answer.
  const events = text.split(/(?<=\n\n)/).filter((event) => event.endsWith('\n\n'));
  const known = events.findLastIndex((event) => event.startsWith('id: '));
  const eventId = /^id: (.*)$/m.exec(events[known] ?? '')?.[1];
  return eventId === undefined
    ? undefined
    : { text: events.slice(0, known + 1).join(''), requestId, eventId };
}

/** The exchange as if it had not been broken off, until `limitMs` after its beginning. */
export async function comeBack(
  url: string,
  path: string,
  { key }: Pick<Account, 'key'>,
  before: Exchange,
  { text, requestId, eventId }: Standing,
  limitMs: number,
): Promise<Exchange> {
  for (;;) {
    const leftMs = before.startedMs + limitMs - performance.now();
    if (leftMs <= 0) return { ...before, end: 'late', endedMs: performance.now() };
    const headers = { 'x-request-id': requestId, 'last-event-id': eventId };
    const rest = await exchange(url, { method: 'POST', path, key, headers }, patient, leftMs);
    const isAway = rest.status === undefined || rest.status === 503 || rest.status === 429;
    if (!isAway) {
      const joined = rest.status === 200 ? text + rest.text : rest.text;
      return { ...rest, text: joined, startedMs: before.startedMs };
    }
    await sleep(AGAIN_MS);
  }
}
