// Files and batches beside everything else: lines in are lines out, each once, each with its known answer, whatever
// becomes of the server meanwhile.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Account } from './accounts.ts';
import { difference } from './answer.ts';
import { noTokens } from './books.ts';
import { type KnownRequest, knownRequests } from './catalogue.ts';
import type { Chance } from './chance.ts';
import { type Ask, type Exchange, exchange, patient } from './exchange.ts';
import { protocols } from './protocols.ts';
import { readers } from './readers.ts';
import { accountFor, type Trial } from './trial.ts';

/** A call is tried again for so long: through stops, starts and full queues. */
const CALL_LIMIT_MS = 200_000;
/** A batch of few lines that has not ended by then never will. */
const BATCH_LIMIT_MS = 300_000;
const POLL_MS = 500;
const BATCHABLE = ['/v1/chat/completions', '/v1/completions', '/v1/embeddings', '/v1/responses'] as const;
/** Engines that may die on a line before it is given up. */
const DEATHS_TO_GIVE_UP = 3;

type BatchPath = (typeof BATCHABLE)[number];

export interface BatchPlan {
  readonly path: BatchPath;
  /** By custom id; undefined for a line that must be refused. */
  readonly lines: ReadonlyMap<string, KnownRequest | undefined>;
  /** So long after it has begun to run; undefined where it may end. */
  readonly cancelMs: number | undefined;
}

interface WireBatch {
  readonly id: string;
  readonly status: string;
  readonly output_file_id: string | null;
  readonly error_file_id: string | null;
  readonly request_counts: { readonly total: number };
  readonly metadata: { readonly tag?: string } | null;
  readonly errors?: unknown;
}

interface WireLine {
  readonly custom_id: string;
  readonly response: { readonly status_code: number; readonly body: unknown } | null;
  readonly error: { readonly code: string } | null;
}

/** One batch after another, until it is told to stop; then the last one is seen to its end. */
export async function batchClient(trial: Trial, chance: Chance, stop: AbortSignal): Promise<void> {
  for (let at = 0; !stop.aborted; at++) {
    const own = chance.branch(`batch ${at}`);
    await sleep(own.between(200, 3000));
    await runBatch(trial, planBatch(own), `batch ${at}, ${own.below(1e9)}`).catch((error: unknown) =>
      trial.violations.add('a batch could not be run', String(error)),
    );
  }
}

export function planBatch(chance: Chance): BatchPlan {
  const path = chance.pick(BATCHABLE);
  const among = knownRequests.filter((request) => request.path === path && !request.longPrompt);
  const lines = new Map<string, KnownRequest | undefined>();
  for (let at = 0, count = chance.between(3, 24); at < count; at++)
    lines.set(`line-${at}`, chance.pick(among));
  if (chance.happens(0.3)) lines.set('wrong', undefined);
  return { path, lines, cancelMs: chance.happens(0.25) ? chance.between(0, 3000) : undefined };
}

export async function runBatch(trial: Trial, plan: BatchPlan, tag: string): Promise<void> {
  const account = accountFor(trial, 'batches');
  const startedMs = performance.now();
  const inputId = await upload(trial, account, inputOf(plan));
  const id = await create(trial, account, plan.path, inputId, tag);
  trial.timeline.count('batch');
  await seeThrough(trial, account, plan, id, startedMs);
}

/** Waits for its end, calls it off where that is planned, and holds what came out to what went in. */
async function seeThrough(
  trial: Trial,
  account: Account,
  { lines, cancelMs, path }: BatchPlan,
  id: string,
  startedMs: number,
): Promise<void> {
  const told = { batch: id, path, lines: lines.size, cancelMs };
  let batch = await find(trial, account, id);
  let cancelled = false;
  let runningMs: number | undefined;
  while (!isOver(batch)) {
    if (performance.now() - startedMs > BATCH_LIMIT_MS) {
      const detail = `${batch.status} after ${BATCH_LIMIT_MS / 1000} s: ${JSON.stringify(batch.request_counts)}`;
      trial.violations.add('a batch never ends', detail, told);
      return;
    }
    if (batch.status !== 'validating') runningMs ??= performance.now();
    const due =
      cancelMs !== undefined && runningMs !== undefined && performance.now() - runningMs >= cancelMs;
    if (due && !cancelled) {
      cancelled = true;
      await call(
        trial,
        { method: 'POST', path: `/v1/batches/${id}/cancel`, key: account.key, body: '{}' },
        [200, 400],
      );
    }
    await sleep(POLL_MS);
    batch = await find(trial, account, id);
  }
  if (!cancelled && batch.status !== 'completed') {
    trial.violations.add('a batch failed', JSON.stringify(batch).slice(0, 400), told);
  }
  const out = [
    ...(await content(trial, account, batch.output_file_id)),
    ...(await content(trial, account, batch.error_file_id)),
  ];
  const deaths = trial.timeline.deathsBetween(startedMs, performance.now());
  checkLines(trial, lines, out, told);
  for (const line of out)
    holdLine(trial, account, lines.get(line.custom_id), line, { path, cancelled, deaths });
  trial.tally.count(`batch ${batch.status}`);
}

/** Lines in are lines out, each exactly once. */
function checkLines(
  { violations }: Trial,
  lines: BatchPlan['lines'],
  out: readonly WireLine[],
  told: unknown,
): void {
  const counts = new Map<string, number>();
  for (const { custom_id } of out) counts.set(custom_id, (counts.get(custom_id) ?? 0) + 1);
  const missing = [...lines.keys()].filter((name) => !counts.has(name));
  const twice = [...counts].filter(([, count]) => count > 1).map(([name]) => name);
  const foreign = [...counts.keys()].filter((name) => !lines.has(name));
  const say = (kind: string, names: readonly string[]) => {
    if (names.length === 0) return;
    violations.add(kind, `${names.length} of ${lines.size}, such as ${names.slice(0, 5).join(', ')}`, told);
  };
  say('lines of a batch were lost', missing);
  say('lines of a batch came twice', twice);
  say('lines came that nobody asked for', foreign);
}

function holdLine(
  { references, books, violations }: Trial,
  account: Account,
  request: KnownRequest | undefined,
  line: WireLine,
  { path, cancelled, deaths }: { path: BatchPath; cancelled: boolean; deaths: number },
): void {
  const nowMs = performance.now();
  const complain = (detail: string) =>
    violations.add('a line was answered wrongly', detail, {
      path,
      line: line.custom_id,
      request: request?.name,
    });
  const said = JSON.stringify(line.error ?? line.response).slice(0, 200);
  if (request === undefined) {
    if (!cancelled && line.response?.status_code !== 400) complain(`a wrong line got ${said}`);
    return;
  }
  const reference = references.get(request.name);
  if (line.response?.status_code === 200) {
    const outcome = readers[protocols[path].whole.form](JSON.stringify(line.response.body));
    if (outcome.kind !== 'answer') {
      complain(JSON.stringify(outcome).slice(0, 300));
      return;
    }
    if (outcome.usage !== undefined) books.exact(account.id, request.name, outcome.usage, nowMs, nowMs);
    const detail = difference(reference?.answer, outcome.answer);
    if (detail !== undefined) complain(detail);
    return;
  }
  // What had been computed of it when it was called off may be charged.
  const most = reference?.usage ?? noTokens;
  books.enter({
    accountId: account.id,
    what: request.name,
    startedMs: nowMs,
    endedMs: nowMs,
    least: noTokens,
    most,
  });
  const calledOff = cancelled && line.error?.code === 'batch_cancelled';
  if (!calledOff && deaths < DEATHS_TO_GIVE_UP) complain(`it failed: ${said}`);
}

function inputOf({ path, lines }: BatchPlan): string {
  return [...lines]
    .map(([custom_id, request]) => {
      const body = request?.body ?? { input: 5, messages: 5, prompt: {} };
      return JSON.stringify({ custom_id, method: 'POST', url: path, body });
    })
    .join('\n');
}

function isOver({ status }: WireBatch): boolean {
  return ['completed', 'failed', 'expired', 'cancelled'].includes(status);
}

export async function upload(trial: Trial, { key }: Account, text: string): Promise<string> {
  const boundary = 'chaos-boundary';
  const part = (head: string, body: string) =>
    `--${boundary}\r\ncontent-disposition: form-data; ${head}\r\n\r\n${body}\r\n`;
  const body = `${part('name="purpose"', 'batch')}${part('name="file"; filename="lines.jsonl"', text)}--${boundary}--\r\n`;
  const headers = { 'content-type': `multipart/form-data; boundary=${boundary}` };
  const came = await call(trial, { method: 'POST', path: '/v1/files', key, headers, body });
  return (JSON.parse(came.text) as { id: string }).id;
}

/** One that was made though nobody heard of it is found again by its tag: none is made twice. */
async function create(
  trial: Trial,
  account: Account,
  path: BatchPath,
  inputId: string,
  tag: string,
): Promise<string> {
  const { key } = account;
  const order = { input_file_id: inputId, endpoint: path, completion_window: '24h', metadata: { tag } };
  const ask: Ask = { method: 'POST', path: '/v1/batches', key, body: JSON.stringify(order) };
  const lookUp = async () => {
    const { text } = await call(trial, { method: 'GET', path: '/v1/batches?limit=100', key });
    const { data } = JSON.parse(text) as { data: WireBatch[] };
    return data.find(({ metadata }) => metadata?.tag === tag)?.id;
  };
  const endMs = performance.now() + CALL_LIMIT_MS;
  while (performance.now() < endMs) {
    const came = await exchange(trial.server.url, ask, patient, CALL_LIMIT_MS);
    if (came.end === 'complete' && came.status === 200) return (JSON.parse(came.text) as WireBatch).id;
    await sleep(POLL_MS);
    const made = await lookUp();
    if (made !== undefined) return made;
  }
  throw new Error('no batch could be made');
}

async function find(trial: Trial, { key }: Account, id: string): Promise<WireBatch> {
  const { text } = await call(trial, { method: 'GET', path: `/v1/batches/${id}`, key });
  return JSON.parse(text) as WireBatch;
}

async function content(trial: Trial, { key }: Account, id: string | null): Promise<WireLine[]> {
  if (id === null) return [];
  const { text } = await call(trial, { method: 'GET', path: `/v1/files/${id}/content`, key });
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as WireLine);
}

/** Asks again where the server is away, full or without its database for the moment. */
async function call(trial: Trial, ask: Ask, statuses: readonly number[] = [200]): Promise<Exchange> {
  const endMs = performance.now() + CALL_LIMIT_MS;
  for (;;) {
    const came = await exchange(trial.server.url, ask, patient, CALL_LIMIT_MS);
    if (came.end === 'complete' && statuses.includes(came.status ?? 0)) return came;
    const mayPass = came.end !== 'complete' || came.status === 503 || came.status === 429;
    const outage = trial.outages.during(came.startedMs, came.endedMs);
    if (came.end !== 'complete' && outage === undefined) {
      trial.violations.add(
        'no answer and no error',
        `${ask.method} ${ask.path}: ${came.problem ?? came.end}`,
      );
    }
    if (!mayPass || performance.now() >= endMs) {
      throw new Error(`${ask.method} ${ask.path}: ${came.end} ${came.status} ${came.text.slice(0, 200)}`);
    }
    await sleep(POLL_MS);
  }
}
