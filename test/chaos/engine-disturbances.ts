// Violence against engine processes: ended, stopped, ended while they load.

import { setTimeout as sleep } from 'node:timers/promises';
import { askKnown, calmly } from './asking.ts';
import { FIRST_MODEL, knownRequests, SECOND_MODEL } from './catalogue.ts';
import type { Exchange } from './exchange.ts';
import { type ProcessEntry, sendSignal } from './process-table.ts';
import { type Server, STEP_TIMEOUT_SECONDS } from './server.ts';
import { freeAccounts, type Trial } from './trial.ts';

/** Far beyond the step timeout: for machines with much else to do. */
const WATCHDOG_LIMIT_MS = 1000 * STEP_TIMEOUT_SECONDS + 45_000;
const LOADING_LIMIT_MS = 5000;

export async function killEngine(trial: Trial, engine: number): Promise<void> {
  const victim = await chosen(trial, engine);
  if (victim !== undefined) kill(trial, victim.pid);
}

export async function killEveryEngine(trial: Trial): Promise<void> {
  for (const { pid } of await trial.server.engines()) kill(trial, pid);
}

export async function stopEngine(trial: Trial, engine: number, forMs: number): Promise<void> {
  const victim = await chosen(trial, engine);
  if (victim === undefined) return;
  sendSignal(victim.pid, 'SIGSTOP');
  await sleep(forMs);
  sendSignal(victim.pid, 'SIGCONT');
}

/** Stops an engine for good: the server has to notice, end it and go on with another. */
export async function hangEngine(trial: Trial, engine: number): Promise<void> {
  const victim = await chosen(trial, engine);
  if (victim === undefined) return;
  sendSignal(victim.pid, 'SIGSTOP');
  // Work for each model, so that there is a step that does not return, and somebody who waits for it.
  const [account] = freeAccounts(trial);
  const asked = [FIRST_MODEL, SECOND_MODEL].map((model) => {
    const request = knownRequests.find(({ body }) => body.model === model);
    if (request === undefined || account === undefined) return undefined;
    return askKnown(trial, request, account, { ...calmly, calm: false });
  });
  const endMs = performance.now() + WATCHDOG_LIMIT_MS;
  while (performance.now() < endMs && (await lives(trial, victim.pid))) {
    // Another disturbance may have let it go on.
    sendSignal(victim.pid, 'SIGSTOP');
    await sleep(200);
  }
  if (await lives(trial, victim.pid)) {
    trial.violations.add(
      'a hung engine was not replaced',
      `process ${victim.pid} was stopped and still stands after ${WATCHDOG_LIMIT_MS / 1000} s with a step timeout of ${STEP_TIMEOUT_SECONDS} s`,
    );
    sendSignal(victim.pid, 'SIGCONT');
  }
  await Promise.all(asked);
}

/** The load must be tried again; that the server computes by itself instead is for when no process can be had. */
export async function killLoadingEngine(trial: Trial, model: string): Promise<void> {
  await unloadWhenIdle(trial, model);
  const before = new Set((await trial.server.engines()).map(({ pid }) => pid));
  const loading = trial.admin.load(model);
  const endMs = performance.now() + LOADING_LIMIT_MS;
  let victim: ProcessEntry | undefined;
  while (victim === undefined && performance.now() < endMs) {
    victim = (await trial.server.engines()).find(({ pid }) => !before.has(pid));
    if (victim === undefined) await sleep(5);
  }
  if (victim !== undefined) kill(trial, victim.pid);
  else trial.timeline.note('nothing was loading');
  const came = await loading;
  trial.tally.count(`admin: load while its engine dies ${came.status ?? came.end}`);
  if (came.status !== 200 && came.status !== 503) {
    const detail = `${came.end}, status ${came.status}: ${came.text.slice(0, 300)}`;
    trial.violations.add('a load whose engine died was not tried again', detail);
  }
  for (const engine of (await trial.admin.stats()).engines) {
    if (!engine.direct) continue;
    const detail = `${engine.model} is computed inside the server, although processes can be started`;
    trial.violations.add('direct mode', detail);
  }
}

/** A model in use stays; now and then nobody uses it for a moment. */
export async function unloadWhenIdle(trial: Trial, model: string): Promise<Exchange> {
  let came = await trial.admin.unload(model);
  for (let tried = 1; tried < 20 && came.status === 409; tried++) {
    await sleep(100);
    came = await trial.admin.unload(model);
  }
  return came;
}

async function chosen(trial: Trial, share: number): Promise<ProcessEntry | undefined> {
  const engines = await trial.server.engines();
  return engines[Math.floor(share * engines.length)];
}

function kill(trial: Trial, pid: number): void {
  trial.timeline.death();
  sendSignal(pid, 'SIGKILL');
}

async function lives(trial: Trial, pid: number): Promise<boolean> {
  return (await trial.server.engines()).some((engine) => engine.pid === pid);
}

/** A moment of work between pauses that no watchdog minds: whatever is being answered takes as long as one likes. */
const PAUSE_MS = 3000;
const WORK_MS = 40;

/** Until it is told to let them run. */
export async function slowEngines(server: Server, stop: AbortSignal): Promise<void> {
  const signal = async (name: NodeJS.Signals) => {
    for (const { pid } of await server.engines()) sendSignal(pid, name);
  };
  while (!stop.aborted && server.alive) {
    await signal('SIGSTOP');
    await sleep(PAUSE_MS, undefined, { signal: stop }).catch(() => undefined);
    await signal('SIGCONT');
    await sleep(WORK_MS);
  }
}
