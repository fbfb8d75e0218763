// Asks one request and holds what comes back to what must come back.

import type { Account } from './accounts.ts';
import type { BadRequest } from './bad-requests.ts';
import type { KnownRequest } from './catalogue.ts';
import { type Ask, type Exchange, exchange, type Manner, patient } from './exchange.ts';
import { complaintAbout } from './judgement.ts';
import { type Outcome, outcomeOf } from './outcome.ts';
import { nameOf } from './tally.ts';
import type { Trial } from './trial.ts';

/** Beyond this a request has got no answer: far longer than any engine is kept from answering. */
const LIMIT_MS = 150_000;

export interface Way {
  readonly stream: boolean;
  readonly manner: Manner;
  readonly deadlineMs?: number;
  /** Nothing is being disturbed. */
  readonly calm?: boolean;
  readonly closing?: boolean;
  readonly revoked?: boolean;
}

export const calmly: Way = { stream: false, manner: patient, calm: true };

export async function askKnown(
  trial: Trial,
  request: KnownRequest,
  account: Account,
  way: Way,
): Promise<Outcome> {
  const { came, outcome } = await asked(trial, request, account, way);
  const complaint = complaintAbout(outcome, {
    reference: trial.references.get(request.name),
    limited: account.limited,
    revoked: way.revoked ?? false,
    deadline: way.deadlineMs !== undefined,
    deaths: trial.timeline.deathsBetween(came.startedMs, came.endedMs),
    closing: way.closing ?? false,
    calm: way.calm ?? false,
  });
  if (complaint !== undefined) {
    const { name, path, body } = request;
    const { stream, manner, deadlineMs } = way;
    const tookMs = Math.round(came.endedMs - came.startedMs);
    const how = { stream, manner, deadlineMs, account: account.name, tookMs };
    trial.violations.add(complaint.kind, complaint.detail, { name, path, body: shortened(body), ...how });
  }
  return outcome;
}

/** The answer of a request whose answer is not known yet. */
export async function learnAnswer(trial: Trial, request: KnownRequest, account: Account): Promise<unknown> {
  const { outcome } = await asked(trial, request, account, calmly);
  if (outcome.kind === 'answer') return outcome.answer;
  throw new Error(`${request.name} has no answer: ${JSON.stringify(outcome)}`);
}

async function asked(
  { server, tally }: Trial,
  request: KnownRequest,
  account: Account,
  way: Way,
): Promise<{ readonly came: Exchange; readonly outcome: Outcome }> {
  const stream = way.stream && request.streams;
  const came = await exchange(server.url, askOf(request, account, way, stream), way.manner, LIMIT_MS);
  const outcome = outcomeOf(came, stream ? 'stream' : request.streams ? 'completion' : 'json');
  if (request.streams) tally.completion(outcome, account.id);
  else tally.count(nameOf(outcome));
  return { came, outcome };
}

function askOf({ path, body }: KnownRequest, { key }: Account, way: Way, stream: boolean): Ask {
  const sent = stream ? { ...body, stream, stream_options: { include_usage: true } } : body;
  const headers: Record<string, string> =
    way.deadlineMs === undefined ? {} : { 'x-chairlift-timeout-ms': String(way.deadlineMs) };
  return { method: 'POST', path, key, headers, body: JSON.stringify(sent) };
}

export async function askBad(trial: Trial, bad: BadRequest, account: Account): Promise<void> {
  const ask = bad.keyed ? { ...bad.ask, key: account.key } : bad.ask;
  const came = await exchange(trial.server.url, ask, patient, LIMIT_MS);
  if (came.end === 'broken' && bad.mayBreak === true) {
    trial.tally.count('refused while still sending');
    return;
  }
  const outcome = outcomeOf(came, 'json');
  trial.tally.count(outcome.kind === 'error' ? `refused ${nameOf(outcome)}` : outcome.kind);
  const told = { name: bad.name, ask: shortened({ ...bad.ask, body: String(ask.body).slice(0, 200) }) };
  if (outcome.kind === 'nothing') {
    trial.violations.add('no answer and no error', outcome.why, told);
  } else if (!bad.statuses.includes(came.status ?? 0) && !mayBeRefused(outcome, account)) {
    const detail = `${came.status} instead of ${bad.statuses.join(' or ')}: ${came.text.slice(0, 200)}`;
    trial.violations.add('a bad request answered wrongly', detail, told);
  }
}

/** A full queue, a limit or a model that cannot be had may come before anyone looks at what is wrong. */
function mayBeRefused(outcome: Outcome, { limited }: Account): boolean {
  if (outcome.kind !== 'error') return false;
  const { status, code } = outcome;
  return status === 503 || (status === 429 && (limited || code === 'queue_full'));
}

/** Long texts say nothing; the catalogue has them by name. */
function shortened(body: Readonly<Record<string, unknown>>): unknown {
  return JSON.parse(
    JSON.stringify(body, (_, value: unknown) =>
      typeof value === 'string' && value.length > 200 ? `${value.slice(0, 200)}… (${value.length})` : value,
    ),
  );
}
