// The steady clients: each asks, waits a little and asks again, until it is told to stop.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Account } from './accounts.ts';
import { askBad, askKnown } from './asking.ts';
import type { Chance } from './chance.ts';
import { decide } from './decisions.ts';
import { look } from './prober.ts';
import { anyAccounts, type Trial } from './trial.ts';

const AWAY_MS = 1000;

/** Resolves when it has been told to stop and its last request has ended. */
export async function steadyClient(trial: Trial, chance: Chance, stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    const decision = decide(chance);
    await sleep(decision.pauseMs);
    const accounts = anyAccounts(trial);
    const account = accounts[Math.floor(decision.account * accounts.length)] as Account;
    if (decision.what === 'ask') {
      const outcome = await askKnown(trial, decision.request, account, { ...decision, comesBack: true });
      // Nobody is there: as any client, it waits a little longer.
      if (outcome.kind === 'broken') await sleep(AWAY_MS);
    }
    if (decision.what === 'ask badly') await askBad(trial, decision.request, account);
    if (decision.what === 'look') await look(trial, decision.path, [200], account.key);
  }
}
