// One end of the server while requests run, in good order or by force, and what must hold then: those that are served
// may end, new ones are refused, and nothing is left behind.

import { setTimeout as sleep } from 'node:timers/promises';
import { askKnown } from './asking.ts';
import { knownRequests } from './catalogue.ts';
import { slowEngines } from './engine-disturbances.ts';
import { type Manner, patient } from './exchange.ts';
import { processTable, sendSignal } from './process-table.ts';
import type { Stop } from './schedule.ts';
import type { ServerHome } from './server.ts';
import type { ServerExit } from './server-process.ts';
import { freeAccounts, type Trial } from './trial.ts';

/** After the last client is served or gone there is nothing to wait for. */
const AFTER_LAST_MS = 15_000;
/** Beyond the server's own limit, on a machine with much else to do. */
const BEYOND_LIMIT_MS = 20_000;
/** Longer than a connection may lie unseen: requests from before are being served. */
const HEAD_START_MS = 2500;

export interface Closing {
  readonly how: Stop['kind'];
  readonly exitCode: number | null;
  /** From the signal to the exit. */
  readonly seconds: number;
}

export async function closeServer(trial: Trial, home: ServerHome, stop: Stop): Promise<Closing> {
  const { server, outages, timeline } = trial;
  const engines = (await server.engines()).map(({ pid }) => pid);
  const limitMs = 1000 * server.settings.shutdownLimitSeconds;
  const drainMs = 'drainMs' in stop ? stop.drainMs : 0;
  const slowing = new AbortController();
  if (drainMs > 0) void slowEngines(server, slowing.signal);
  const clients = lastClients(trial);
  await sleep(drainMs > 0 ? HEAD_START_MS : 150);
  const toldMs = performance.now();
  timeline.note(stop.kind, `drain ${drainMs / 1000} s, limit ${limitMs / 1000} s`);
  outages.begin(stop.kind === 'SIGKILL' ? 'cut' : 'orderly', limitMs);
  void sleep(drainMs).then(() => slowing.abort());
  tell(trial, stop);
  let servedMs = toldMs;
  void Promise.all(clients).then(() => {
    servedMs = performance.now();
  });
  const waiting = new AbortController();
  const late = sleep(limitMs + BEYOND_LIMIT_MS, undefined, { signal: waiting.signal }).catch(() => undefined);
  const exit = await Promise.race([server.process.exited, late]);
  waiting.abort();
  const endedMs = performance.now();
  slowing.abort();
  if (stop.kind === 'SIGKILL' || stop.kind === 'SIGTERM twice') trial.books.lost(endedMs);
  if (exit === undefined)
    await endByForce(trial, engines, `${(limitMs + BEYOND_LIMIT_MS) / 1000} s after ${stop.kind}`);
  await Promise.all(clients);
  if (exit !== undefined) checkExit(trial, home, stop, exit, endedMs - Math.max(servedMs, toldMs));
  await checkProcesses(trial, engines);
  return { how: stop.kind, exitCode: exit?.code ?? null, seconds: (endedMs - toldMs) / 1000 };
}

function tell({ server, outages }: Trial, stop: Stop): void {
  switch (stop.kind) {
    case 'SIGTERM':
    case 'SIGKILL':
      server.process.signal(stop.kind);
      return;
    case 'SIGTERM twice':
      server.process.signal('SIGTERM');
      void sleep(stop.againMs).then(() => {
        if (!server.alive) return;
        outages.breakOff();
        server.process.signal('SIGTERM');
      });
      return;
    case 'close the terminal':
      // Where this machine can make none, a signal has to do.
      if (server.process.closeTerminal === undefined) server.process.signal('SIGTERM');
      else server.process.closeTerminal();
  }
}

async function endByForce(
  { server, violations, outages, books }: Trial,
  engines: readonly number[],
  when: string,
) {
  violations.add('the server did not end', `it still runs ${when}`);
  outages.breakOff();
  books.lost(performance.now());
  sendSignal(server.pid, 'SIGKILL');
  for (const pid of engines) sendSignal(pid, 'SIGKILL');
  await server.process.exited;
}

function checkExit(
  { violations, server }: Trial,
  home: ServerHome,
  { kind }: Stop,
  { code, signal }: ServerExit,
  afterLastMs: number,
): void {
  if (kind === 'SIGKILL' || (kind === 'SIGTERM twice' && code === 1)) return;
  if (code !== 0) {
    const detail = `exit code ${code}, signal ${signal}, after ${kind}\n${server.log.recent()}`;
    violations.add('the server ended badly', detail);
  }
  if (afterLastMs > AFTER_LAST_MS) {
    const detail = `it ended ${(afterLastMs / 1000).toFixed(1)} s after its last client was served or gone`;
    violations.add('the server took long to end', detail);
  }
  const leftOvers = home.leftOvers();
  if (leftOvers.length > 0) violations.add('files left behind', leftOvers.join(', '));
}

/** Some that wait for long answers, and some that leave in the middle of their prompts. */
function lastClients(trial: Trial): Promise<unknown>[] {
  const accounts = freeAccounts(trial);
  const ask = (name: (text: string) => boolean, manner: Manner) =>
    knownRequests
      .filter((request) => name(request.name))
      .flatMap((request, at) => {
        const account = accounts[at % accounts.length];
        const way = { stream: at % 2 === 0, manner };
        return account === undefined ? [] : [askKnown(trial, request, account, way)];
      });
  return [
    ...ask((name) => name.endsWith(', long') || name.endsWith('three answers'), patient),
    ...ask((name) => name.includes('long prompt, four'), { kind: 'leaves', afterMs: 60 }),
  ];
}

async function checkProcesses(trial: Trial, engines: readonly number[]): Promise<void> {
  const left = await outliving(engines);
  if (left.length === 0) return;
  trial.violations.add('processes left behind', `engines ${left.join(', ')} outlive the server`);
  for (const pid of left) sendSignal(pid, 'SIGKILL');
}

/** Those that are still there after a while. */
export async function outliving(pids: readonly number[]): Promise<number[]> {
  const living = async () => {
    const table = await processTable();
    return table.filter(({ pid, defunct }) => pids.includes(pid) && !defunct).map(({ pid }) => pid);
  };
  let left = await living();
  for (let tried = 0; tried < 50 && left.length > 0; tried++) {
    await sleep(200);
    left = await living();
  }
  return left;
}
