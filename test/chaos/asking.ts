// Asks one request and holds what comes back to what must come back.

import type { Account } from './accounts.ts';
import type { BadRequest } from './bad-requests.ts';
import { noTokens } from './books.ts';
import type { KnownRequest } from './catalogue.ts';
import { comeBack, standingOf } from './coming-back.ts';
import { type Ask, type Exchange, exchange, type Manner, patient } from './exchange.ts';
import { complaintAbout } from './judgement.ts';
import { type Outcome, outcomeOf } from './outcome.ts';
import { protocols } from './protocols.ts';
import { type Form, tokensSent } from './readers.ts';
import { nameOf } from './tally.ts';
import type { Reference, Trial } from './trial.ts';

/** Beyond this a request has got no answer: far longer than any engine is kept from answering. */
const LIMIT_MS = 150_000;

export interface Way {
  readonly stream: boolean;
  readonly manner: Manner;
  readonly deadlineMs?: number;
  /** Nothing is being disturbed. */
  readonly calm?: boolean;
  readonly revoked?: boolean;
  /** For the rest of a stream that the end of the server broke off. Not where the next server waits for the client. */
  readonly comesBack?: boolean;
}

export const calmly: Way = { stream: false, manner: patient, calm: true };

export async function askKnown(
  trial: Trial,
  request: KnownRequest,
  account: Account,
  way: Way,
): Promise<Outcome> {
  const { came, outcome, form } = await answered(trial, request, account, way);
  enter(trial, request.name, account, came, outcome, form);
  const { startedMs, endedMs } = came;
  const complaint = complaintAbout(outcome, {
    reference: trial.references.get(request.name)?.answer,
    limited: account.limited,
    budgeted: account.dailyTokens !== undefined,
    revoked: way.revoked ?? false,
    deadline: way.deadlineMs !== undefined,
    slow: way.manner.kind === 'slow',
    deaths: trial.timeline.deathsBetween(startedMs, endedMs),
    outage: trial.outages.during(startedMs, endedMs),
    startedMs,
    endedMs,
    calm: way.calm ?? false,
  });
  if (complaint !== undefined) {
    const { name, path, body } = request;
    const { stream, manner, deadlineMs } = way;
    const how = {
      stream,
      manner,
      deadlineMs,
      account: account.name,
      tookMs: Math.round(endedMs - startedMs),
    };
    trial.violations.add(complaint.kind, complaint.detail, { name, path, body: shortened(body), ...how });
  }
  return outcome;
}

/** With the rest of a stream that the end of the server broke off, where its client may come back for that. */
async function answered(trial: Trial, request: KnownRequest, account: Account, way: Way) {
  const first = await asked(trial, request, account, way);
  const mayReturn =
    way.comesBack && way.stream && way.manner.kind === 'patient' && way.deadlineMs === undefined;
  if (!mayReturn || account.limited || account.dailyTokens !== undefined) return first;
  let { came, outcome } = first;
  for (;;) {
    const isCut =
      outcome.kind === 'broken' || (outcome.kind === 'error' && outcome.message.includes('is shutting down'));
    const { startedMs, endedMs } = came;
    const standing = isCut && trial.outages.during(startedMs, endedMs) ? standingOf(came) : undefined;
    if (standing === undefined) return { ...first, came, outcome };
    trial.tally.count('came back');
    came = await comeBack(trial.server.url, request.path, account, came, standing, LIMIT_MS);
    outcome = outcomeOf(came, first.form);
    trial.tally.count(`came back: ${nameOf(outcome)}`);
  }
}

/** The answer of a request whose answer is not known yet. */
export async function learnAnswer(trial: Trial, request: KnownRequest, account: Account): Promise<Reference> {
  const { came, outcome, form } = await asked(trial, request, account, calmly);
  if (outcome.kind !== 'answer') throw new Error(`${request.name} has no answer: ${JSON.stringify(outcome)}`);
  enter(trial, request.name, account, came, outcome, form);
  return { answer: outcome.answer, usage: outcome.usage };
}

async function asked(
  { server, tally }: Trial,
  request: KnownRequest,
  account: Account,
  way: Way,
): Promise<{ readonly came: Exchange; readonly outcome: Outcome; readonly form: Form }> {
  const { whole, streamed } = protocols[request.path];
  const form = way.stream && streamed !== undefined ? streamed.form : whole.form;
  const body = { ...request.body, ...(form === whole.form ? whole.asks : streamed?.asks) };
  const came = await exchange(server.url, askOf(request.path, body, account, way), way.manner, LIMIT_MS);
  const outcome = outcomeOf(came, form);
  tally.count(nameOf(outcome));
  return { came, outcome, form };
}

function askOf(path: string, body: object, { key }: Account, { deadlineMs }: Way): Ask {
  const headers: Record<string, string> =
    deadlineMs === undefined ? {} : { 'x-chairlift-timeout-ms': String(deadlineMs) };
  return { method: 'POST', path, key, headers, body: JSON.stringify(body) };
}

/** Nobody pays for a refusal; who heard the end pays what it said; the others something up to the whole answer. */
function enter(
  { books, references, outages }: Trial,
  what: string,
  { id }: Account,
  { startedMs, endedMs, text, status }: Exchange,
  outcome: Outcome,
  form: Form,
): void {
  if (outcome.kind === 'answer') {
    if (outcome.usage !== undefined) books.exact(id, what, outcome.usage, startedMs, endedMs);
    return;
  }
  if (outcome.kind === 'error' && !outcome.inStream && outcome.status === 429) return;
  const most = references.get(what)?.usage;
  if (most === undefined) return;
  const cut = outages.during(startedMs, endedMs)?.kind === 'cut';
  const sent = status === 200 && !cut ? { ...noTokens, completionTokens: tokensSent(text, form) } : noTokens;
  books.enter({ accountId: id, what, startedMs, endedMs, least: sent, most });
}

export async function askBad(trial: Trial, bad: BadRequest, account: Account): Promise<void> {
  const ask = bad.keyed ? { ...bad.ask, key: account.key } : bad.ask;
  const came = await exchange(trial.server.url, ask, patient, LIMIT_MS);
  const { startedMs, endedMs } = came;
  if (came.end === 'broken' && bad.mayBreak === true) {
    trial.tally.count('refused while still sending');
    return;
  }
  const outcome = outcomeOf(came, 'json');
  trial.tally.count(outcome.kind === 'error' ? `refused ${nameOf(outcome)}` : outcome.kind);
  if (outcome.kind === 'answer' && outcome.usage !== undefined) {
    trial.books.exact(account.id, bad.name, outcome.usage, startedMs, endedMs);
  }
  if (trial.outages.during(startedMs, endedMs) !== undefined) return;
  const told = { name: bad.name, ask: shortened({ ...bad.ask, body: String(ask.body).slice(0, 200) }) };
  if (outcome.kind === 'nothing' || outcome.kind === 'broken') {
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
