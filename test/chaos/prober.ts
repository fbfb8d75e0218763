// Those who look after the server all the time, as an orchestrator and several monitors do: it must say that it lives,
// whatever happens to its engines, and its counters must never fall.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Chance } from './chance.ts';
import { parseCounters, sumOf } from './counters.ts';
import { exchange, patient } from './exchange.ts';
import type { Trial } from './trial.ts';

const LONGEST_PAUSE_MS = 1000;
/** Far longer than an orchestrator waits. */
const LIMIT_MS = 20_000;

export async function probe(trial: Trial, chance: Chance, stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    await look(trial, '/health', [200]);
    // Where nothing is done to engines they are ready, though one has to make room for the other.
    const mayFail = trial.server.settings.memory === 'ample';
    await look(trial, '/ready', mayFail ? [200, 503] : [200]);
    await scrape(
      trial,
      chance.weighted([
        [2, 1],
        [1, 2],
        [1, 4],
      ]),
    );
    await sleep(chance.below(LONGEST_PAUSE_MS));
  }
}

/** One of the pages that are always there, with one of these statuses. */
export async function look(
  trial: Trial,
  path: string,
  statuses: readonly number[],
  key?: string,
): Promise<void> {
  const came = await exchange(trial.server.url, { method: 'GET', path, key }, patient, LIMIT_MS);
  trial.tally.count(`looked ${came.status ?? came.end}`);
  if (trial.outages.during(came.startedMs, came.endedMs) !== undefined) return;
  if (came.end === 'complete' && statuses.includes(came.status ?? 0)) return;
  if (came.end === 'late' && trial.holdUps.between(came.startedMs, came.endedMs) > LIMIT_MS / 2) return;
  const detail = `${came.end}, status ${came.status}: ${came.text.slice(0, 300)}`;
  trial.violations.add(`GET ${path} fails`, detail);
}

/** Several at once: none may see less than was seen before, nor more than is seen after. */
async function scrape(trial: Trial, atOnce: number): Promise<void> {
  const startedMs = performance.now();
  const scrapes = await Promise.all(Array.from({ length: atOnce }, () => trial.admin.scrape()));
  trial.timeline.count(atOnce === 1 ? 'scrape' : 'scrapes at once');
  if (trial.outages.during(startedMs, performance.now()) !== undefined) return;
  for (const came of scrapes) {
    if (came.status === 200) continue;
    trial.violations.add('/metrics fails', `${came.end}, status ${came.status}: ${came.text.slice(0, 300)}`);
    return;
  }
  const preemptions = sumOf(scrapes[0]?.text ?? '', 'chairlift_preemptions_total') ?? 0;
  trial.tally.preemptions = Math.max(trial.tally.preemptions, preemptions);
  const all = scrapes.map(({ text }) => parseCounters(text));
  for (const detail of trial.counters.look(all)) trial.violations.add('a counter went backwards', detail);
}
