// The same server started once more by mistake, on the same port and the same database: it must say so and end, and
// the one that runs, and its batches that are just being read in, must not notice.

import { setTimeout as sleep } from 'node:timers/promises';
import { runBatch } from './batches.ts';
import { shortLine } from './catalogue.ts';
import type { Chance } from './chance.ts';
import { outliving } from './closing.ts';
import { childrenOf, sendSignal } from './process-table.ts';
import type { Trial } from './trial.ts';

const TWIN_LIMIT_MS = 120_000;
const POLL_MS = 200;
/** Between batches, so that whenever the twin gets that far one is being read in. */
const APART_MS = 1200;

export async function startTwin(trial: Trial, chance: Chance, batches: number, lines: number): Promise<void> {
  const running = Array.from({ length: batches }, async (_, at) => {
    await sleep(at * APART_MS);
    await manyLines(trial, lines, `twin ${chance.below(1e9)} ${at}`);
  });
  await Promise.all([watchTwin(trial), ...running]);
}

/** They are called off when they have been read: their number counts, not their answers. */
async function manyLines(trial: Trial, count: number, tag: string): Promise<void> {
  const lines = new Map(Array.from({ length: count }, (_, at) => [`line-${at}`, shortLine] as const));
  await runBatch(trial, { path: '/v1/completions', lines, cancelMs: 0 }, tag);
}

async function watchTwin({ server, violations, outages }: Trial): Promise<void> {
  const startedMs = performance.now();
  const twin = server.startTwin();
  let said = '';
  const take = (text: string) => {
    said += text;
  };
  twin.listen(take, take);
  let exit: { readonly code: number | null } | undefined;
  void twin.exited.then((its) => {
    exit = its;
  });
  const engines = new Set<number>();
  while (exit === undefined && performance.now() - startedMs < TWIN_LIMIT_MS) {
    for (const { pid } of await childrenOf(twin.pid)) engines.add(pid);
    await sleep(POLL_MS);
  }
  if (exit === undefined) twin.signal('SIGKILL');
  // Without the first one the port is free, and it is no twin.
  if (outages.during(startedMs, performance.now()) !== undefined) return;
  // It may come upon the database while another disturbance holds it.
  if (exit === undefined || exit.code === 0 || !/in use|is locked by another process/.test(said)) {
    violations.add('a twin did not give way', `exit code ${exit?.code}: ${said.slice(-300)}`);
  }
  const left = await outliving([...engines]);
  if (left.length > 0) violations.add('processes left behind', `engines ${left.join(', ')} outlive a twin`);
  for (const pid of left) sendSignal(pid, 'SIGKILL');
}
