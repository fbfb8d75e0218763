// The end: SIGTERM while requests run. Those may end, new ones are refused, and nothing is left behind.

import { setTimeout as sleep } from 'node:timers/promises';
import { askKnown } from './asking.ts';
import { knownRequests } from './catalogue.ts';
import { type Manner, patient } from './exchange.ts';
import { processTable, sendSignal } from './process-table.ts';
import type { ServerHome } from './server.ts';
import { freeAccounts, type Trial } from './trial.ts';

/** After the last client is served or gone there is nothing to wait for. */
const AFTER_LAST_MS = 15_000;
const EXIT_LIMIT_MS = 120_000;

export interface Closing {
  readonly exitCode: number | null;
  /** From the signal to the exit. */
  readonly seconds: number;
}

export async function closeServer(trial: Trial, home: ServerHome): Promise<Closing> {
  const engines = (await trial.server.engines()).map(({ pid }) => pid);
  const clients = lastClients(trial);
  await sleep(150);
  const toldMs = performance.now();
  trial.timeline.note('SIGTERM');
  trial.server.signal('SIGTERM');
  let servedMs = toldMs;
  void Promise.all(clients).then(() => {
    servedMs = performance.now();
  });
  const exit = await Promise.race([trial.server.exited, sleep(EXIT_LIMIT_MS, undefined, { ref: false })]);
  const endedMs = performance.now();
  await Promise.all(clients);
  const { violations } = trial;
  if (exit === undefined) {
    violations.add('the server did not end', `it still runs ${EXIT_LIMIT_MS / 1000} s after SIGTERM`);
  } else {
    if (exit.code !== 0) {
      violations.add(
        'the server ended badly',
        `exit code ${exit.code}, signal ${exit.signal}\n${trial.server.log.recent()}`,
      );
    }
    const waitedMs = endedMs - Math.max(servedMs, toldMs);
    if (waitedMs > AFTER_LAST_MS) {
      const detail = `it ended ${(waitedMs / 1000).toFixed(1)} s after its last client was served or gone`;
      violations.add('the server took long to end', detail);
    }
    const leftOvers = home.leftOvers();
    if (leftOvers.length > 0) violations.add('files left behind', leftOvers.join(', '));
  }
  await checkProcesses(trial, engines);
  return { exitCode: exit?.code ?? null, seconds: (endedMs - toldMs) / 1000 };
}

/** Some that wait for long answers, and some that leave in the middle of their prompts. */
function lastClients(trial: Trial): Promise<unknown>[] {
  const accounts = freeAccounts(trial);
  const ask = (name: (text: string) => boolean, manner: Manner) =>
    knownRequests
      .filter((request) => name(request.name))
      .flatMap((request, at) => {
        const account = accounts[at % accounts.length];
        const way = { stream: at % 2 === 0, manner, closing: true };
        return account === undefined ? [] : [askKnown(trial, request, account, way)];
      });
  return [
    ...ask((name) => name.endsWith(', long') || name.endsWith('three answers'), patient),
    ...ask((name) => name.includes('long prompt, four'), { kind: 'leaves', afterMs: 60 }),
  ];
}

async function checkProcesses(trial: Trial, engines: readonly number[]): Promise<void> {
  const living = async () => {
    const table = await processTable();
    return table.filter(({ pid, defunct }) => engines.includes(pid) && !defunct).map(({ pid }) => pid);
  };
  let left = await living();
  for (let tried = 0; tried < 25 && left.length > 0; tried++) {
    await sleep(200);
    left = await living();
  }
  if (left.length === 0) return;
  trial.violations.add('processes left behind', `engines ${left.join(', ')} outlive the server`);
  for (const pid of left) sendSignal(pid, 'SIGKILL');
}
