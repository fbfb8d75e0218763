// More than the server was made for: many requests of one key at once, clients that leave together, requests that are
// thousands of sequences, and a key that tries to spend its minute twice.

import { setTimeout as sleep } from 'node:timers/promises';
import { type Account, BURST_TOKENS } from './accounts.ts';
import { askKnown } from './asking.ts';
import { noTokens } from './books.ts';
import { FIRST_MODEL, type KnownRequest, knownRequests, longText, SECOND_MODEL } from './catalogue.ts';
import type { Chance } from './chance.ts';
import { type Exchange, exchange, type Manner, patient } from './exchange.ts';
import { outcomeOf } from './outcome.ts';
import { accountFor, freeAccounts, type Trial } from './trial.ts';

const LIMIT_MS = 150_000;
const LISTEN_LIMIT_MS = 30_000;
/** Other routes wait no longer than that, even on a machine with much else to do. */
const DEAF_MS = 5000;
const PROMPTS = 128;
const ANSWERS = 32;
const TEXTS = 2048;

/** Many requests of one key at once. */
export async function flood(
  trial: Trial,
  chance: Chance,
  account: Account,
  among: readonly KnownRequest[],
  requests: number,
): Promise<void> {
  await Promise.all(
    Array.from({ length: requests }, () =>
      askKnown(trial, chance.pick(among), account, { stream: chance.happens(0.5), manner: patient }),
    ),
  );
}

/** Several answers to long prompts, wanted and at once not wanted any more. */
export async function leavingCrowd(
  trial: Trial,
  chance: Chance,
  clients: number,
  afterMs: number,
): Promise<void> {
  const long = knownRequests.filter(({ longPrompt, body }) => longPrompt && body.n !== undefined);
  await Promise.all(
    Array.from({ length: clients }, () => {
      const way = { stream: chance.happens(0.5), manner: { kind: 'leaves', afterMs } } as const;
      return askKnown(trial, chance.pick(long), chance.pick(freeAccounts(trial)), way);
    }),
  );
}

/** Other clients must not notice. */
export async function thousandsOfSequences(trial: Trial, requests: number, forMs: number): Promise<void> {
  const account = accountFor(trial, 'crowds');
  const over = new AbortController();
  const listening = listen(trial, over.signal);
  const leaves: Manner = { kind: 'leaves', afterMs: forMs };
  await Promise.all(
    Array.from({ length: requests }, (_, at) =>
      at % 3 === 2 ? manyTexts(trial, account, leaves) : manyAnswers(trial, account, at, leaves),
    ),
  );
  over.abort();
  await listening;
}

async function manyAnswers(trial: Trial, account: Account, at: number, manner: Manner): Promise<void> {
  const prompt = Array.from({ length: PROMPTS }, (_, n) => `${at} and ${n}`);
  const body = { model: SECOND_MODEL, prompt, n: ANSWERS, max_tokens: 4, temperature: 1, seed: at };
  const bytes = prompt.reduce((sum, text) => sum + text.length, 0);
  const most = { promptTokens: bytes, completionTokens: PROMPTS * ANSWERS * 4 };
  await spend(trial, account, '/v1/completions', body, most, manner);
}

async function manyTexts(trial: Trial, account: Account, manner: Manner): Promise<void> {
  const input = Array.from({ length: TEXTS }, (_, n) => `text ${n}`);
  const bytes = input.reduce((sum, text) => sum + text.length, 0);
  const most = { promptTokens: bytes, completionTokens: 0 };
  await spend(trial, account, '/v1/embeddings', { model: SECOND_MODEL, input }, most, manner);
}

/** Asks for the list of models all the time. */
async function listen(trial: Trial, over: AbortSignal): Promise<void> {
  const { key } = accountFor(trial, 'crowds');
  while (!over.aborted) {
    const came = await exchange(
      trial.server.url,
      { method: 'GET', path: '/v1/models', key },
      patient,
      LISTEN_LIMIT_MS,
    );
    const tookMs = came.endedMs - came.startedMs;
    const heldUpMs = trial.holdUps.between(came.startedMs, came.endedMs);
    const away = trial.outages.during(came.startedMs, came.endedMs) !== undefined;
    // Time that other programs took is no fault of the server's.
    if (!away && tookMs - heldUpMs > DEAF_MS) {
      const seconds = (ms: number) => (ms / 1000).toFixed(1);
      const detail = `/v1/models took ${seconds(tookMs)} s with thousands of sequences`;
      trial.violations.add('deaf', `${detail}, held up for ${seconds(heldUpMs)} s`);
    }
    await sleep(200);
  }
}

/**
 * Holds the whole minute with answers that are not taken, waits until some of it has drained, spends that, gives the
 * hold back, and spends the whole minute at once.
 */
export async function spendTwice(trial: Trial, holdMs: number): Promise<void> {
  const account = accountFor(trial, 'burst');
  const promptOf = (count: number) => ({
    model: FIRST_MODEL,
    prompt: Array.from({ length: count }, () => longText),
    max_tokens: 1,
    temperature: 0,
  });
  const tokens = await promptTokens(trial, account);
  const answers = 32;
  const each = Math.floor((BURST_TOKENS - 1000) / answers);
  const hold = {
    model: SECOND_MODEL,
    prompt: 'hold',
    n: answers,
    max_tokens: each,
    ignore_eos: true,
    stream: true,
  };
  const held = spend(
    trial,
    account,
    '/v1/completions',
    hold,
    { promptTokens: 4, completionTokens: answers * each },
    { kind: 'leaves', afterMs: holdMs },
  );
  await sleep(holdMs - 500);
  const drained = Math.floor(((BURST_TOKENS * holdMs) / 60_000 / tokens) * 0.9);
  const paid = (count: number) => ({ promptTokens: count * tokens, completionTokens: count });
  // The server decides about it at once, however long it takes to compute.
  const some = spend(trial, account, '/v1/completions', promptOf(drained), paid(drained), patient);
  await held;
  await sleep(200);
  const all = Math.floor((BURST_TOKENS / (tokens + 1)) * 0.95);
  await Promise.all([some, spend(trial, account, '/v1/completions', promptOf(all), paid(all), patient)]);
}

async function promptTokens(trial: Trial, { key }: Account): Promise<number> {
  const body = JSON.stringify({ model: FIRST_MODEL, prompt: longText });
  const came = await exchange(
    trial.server.url,
    { method: 'POST', path: '/tokenize', key, body },
    patient,
    LIMIT_MS,
  );
  return (JSON.parse(came.text) as { count: number }).count;
}

/** One whose answer nobody holds to anything; the books know the most it can cost. */
async function spend(
  trial: Trial,
  account: Account,
  path: string,
  body: object,
  most: { readonly promptTokens: number; readonly completionTokens: number },
  manner: Manner,
): Promise<Exchange> {
  const ask = { method: 'POST', path, key: account.key, body: JSON.stringify(body) } as const;
  const came = await exchange(trial.server.url, ask, manner, LIMIT_MS);
  const { startedMs, endedMs } = came;
  const outcome = outcomeOf(came, 'json');
  const what = `${path} of ${account.name}`;
  trial.tally.count(`${account.name} ${came.status ?? came.end}`);
  if (outcome.kind === 'answer' && outcome.usage !== undefined) {
    trial.books.exact(account.id, what, outcome.usage, startedMs, endedMs);
  } else if (came.status === undefined || came.status === 200 || came.status >= 500) {
    trial.books.enter({ accountId: account.id, what, startedMs, endedMs, least: noTokens, most });
  }
  const mayFail = came.end === 'left' || trial.outages.during(startedMs, endedMs) !== undefined;
  if (!mayFail && (came.end !== 'complete' || (came.status ?? 500) >= 500)) {
    const detail = `${came.end}, status ${came.status}: ${came.text.slice(0, 200)}`;
    trial.violations.add('no answer and no proper refusal', detail, { path, account: account.name });
  }
  return came;
}
