// The calm hours before and after: right answers, one at a time or several together, and a server that has let go of
// everything when nobody asks.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Account } from './accounts.ts';
import type { AdminStats } from './admin.ts';
import { askBad, askKnown, calmly, learnAnswer } from './asking.ts';
import { hugeRequests } from './bad-requests.ts';
import { chargedIn, noTokens } from './books.ts';
import { FIRST_MODEL, knownRequests, SECOND_MODEL } from './catalogue.ts';
import { idleDifferences, parseCounters } from './counters.ts';
import { freeAccounts, type Trial } from './trial.ts';

const TOGETHER = 8;
const QUIET_LIMIT_MS = 60_000;

/** Each request alone: what every later answer is held to. */
export async function learnAnswers(trial: Trial): Promise<void> {
  const [account] = freeAccounts(trial);
  if (account === undefined) throw new Error('there is no account without limits');
  for (const request of knownRequests) {
    trial.references.set(request.name, await learnAnswer(trial, request, account));
  }
}

/** All known requests, several at a time, streamed and whole in turn; the allocators' plateaus follow from it. */
export async function askEverything(trial: Trial): Promise<void> {
  const accounts = freeAccounts(trial);
  // First, so that what they leave behind is collected during the rest.
  for (const make of hugeRequests) await askBad(trial, make(), accounts[0] as Account);
  const left = [...knownRequests.entries()];
  const worker = async () => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      const [at, request] = next;
      const account = accounts[at % accounts.length];
      if (account !== undefined) await askKnown(trial, request, account, { ...calmly, stream: at % 2 === 0 });
    }
  };
  await Promise.all(Array.from({ length: TOGETHER }, worker));
}

/** Nobody asks any more: nothing may run, wait or hold blocks. */
export async function checkQuiet(trial: Trial): Promise<void> {
  const endMs = performance.now() + QUIET_LIMIT_MS;
  let problem = unrest(await trial.admin.stats());
  while (problem !== undefined && performance.now() < endMs) {
    await sleep(200);
    problem = unrest(await trial.admin.stats());
  }
  if (problem !== undefined) trial.violations.add('not quiet when nobody asks', problem);
}

function unrest({ runningRequests, models, engines }: AdminStats): string | undefined {
  if (runningRequests > 0) return `${runningRequests} requests are under way`;
  const held = models.find(({ busy }) => busy > 0);
  if (held !== undefined) return `${held.name} is held ${held.busy} times`;
  for (const { model, problem, stats } of engines) {
    if (stats === undefined) return `the engine of ${model} does not answer: ${problem}`;
    const waiting = stats.queues.reduce((sum, queue) => sum + queue.waiting, 0);
    const { running, blocks } = stats;
    if (running.length + waiting + blocks.used > 0) {
      return `${model}: ${running.length} run, ${waiting} wait, ${blocks.used} blocks are in use; ${JSON.stringify(running).slice(0, 300)}`;
    }
  }
  return undefined;
}

/** Loads both models, so that what is measured before and after is the same. */
export async function loadBoth(trial: Trial): Promise<void> {
  for (const model of [FIRST_MODEL, SECOND_MODEL]) {
    const came = await trial.admin.load(model);
    if (came.status !== 200) {
      trial.violations.add(
        'a model cannot be loaded in a calm hour',
        `${model}: ${came.status} ${came.text}`,
      );
    }
  }
  for (const { model, direct } of (await trial.admin.stats()).engines) {
    if (direct) trial.violations.add('direct mode', `${model} is still computed inside the server`);
  }
}

/** Two who look at once see what one sees. */
export async function checkCounters(trial: Trial): Promise<void> {
  const scrape = async () => parseCounters((await trial.admin.scrape()).text);
  const alone = await scrape();
  const together = await Promise.all([scrape(), scrape(), scrape()]);
  const after = await scrape();
  for (const other of [...together, after]) {
    for (const detail of idleDifferences(alone, other)) {
      trial.violations.add('counters of an idle server changed by looking', detail);
    }
  }
}

/** What is not loaded is not in use. */
export async function checkUnloading(trial: Trial): Promise<void> {
  for (const time of ['first', 'second']) {
    const came = await trial.admin.unload(SECOND_MODEL);
    const sound = came.status === 200 || (time === 'second' && !came.text.includes('in use'));
    if (!sound) {
      const detail = `the ${time} time, idle: ${came.status} ${came.text.slice(0, 200)}`;
      trial.violations.add('unload answered wrongly', detail);
    }
  }
}

/** Tokens charged are tokens sent, for every key. The server has ended. */
export function checkBooks(trial: Trial): void {
  const charged = chargedIn(trial.server.database);
  for (const account of trial.accounts) {
    const own = charged.get(account.id) ?? { requests: 0, ...noTokens };
    for (const problem of trial.books.problems(account, own)) {
      trial.violations.add('the books do not agree', problem);
    }
  }
}
