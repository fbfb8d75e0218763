// Does to the server what the schedule says, and looks at what each deed must lead to.

import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { MadeKey } from './admin.ts';
import { askBad, askKnown } from './asking.ts';
import { hugeRequests } from './bad-requests.ts';
import { knownRequests, longStories } from './catalogue.ts';
import type { Chance } from './chance.ts';
import { flood, leavingCrowd, spendTwice, thousandsOfSequences } from './crowds.ts';
import { whileLocked } from './database-lock.ts';
import {
  hangEngine,
  killEngine,
  killEveryEngine,
  killLoadingEngine,
  stopEngine,
  unloadWhenIdle,
} from './engine-disturbances.ts';
import { type Exchange, patient } from './exchange.ts';
import type { Disturbance, Planned } from './schedule.ts';
import { anyAccounts, freeAccounts, type Trial } from './trial.ts';
import { startTwin } from './twin.ts';
import { sendGarbage } from './wire-garbage.ts';

/** Resolves when the time is over and the last one, too; at once where the server dies. */
export async function disturb(
  trial: Trial,
  planned: readonly Planned[],
  chance: Chance,
  durationMs: number,
): Promise<void> {
  const startedMs = performance.now();
  const { server } = trial;
  const died = new AbortController();
  void server.process.exited.then(() => died.abort());
  const until = (atMs: number) =>
    sleep(Math.max(0, startedMs + atMs - performance.now()), undefined, { signal: died.signal }).catch(
      () => {},
    );
  const under: Promise<unknown>[] = [];
  for (const [at, { atMs, disturbance }] of planned.entries()) {
    await until(atMs);
    if (!server.alive) break;
    const { kind, ...how } = disturbance;
    trial.timeline.note(kind, Object.entries(how).join(' '));
    const begunMs = performance.now();
    const done = act(trial, disturbance, chance.branch(`disturbance ${at}`)).catch((error: unknown) => {
      // A server that is gone is told by others; here it must not hide what else is found.
      const away = trial.outages.during(begunMs, performance.now()) !== undefined;
      if (server.alive && !away) trial.violations.add('a disturbance failed', `${kind}: ${String(error)}`);
    });
    under.push(done);
  }
  await until(durationMs);
  await Promise.all(under);
}

function act(trial: Trial, disturbance: Disturbance, chance: Chance): Promise<unknown> {
  switch (disturbance.kind) {
    case 'kill an engine':
      return killEngine(trial, disturbance.engine);
    case 'kill every engine':
      return killEveryEngine(trial);
    case 'stop an engine':
      return stopEngine(trial, disturbance.engine, disturbance.forMs);
    case 'hang an engine':
      return hangEngine(trial, disturbance.engine);
    case 'kill a loading engine':
      return killLoadingEngine(trial, disturbance.model);
    case 'unload':
      return expectStatus(trial, 'unload', unloadWhenIdle(trial, disturbance.model), [200, 409]);
    case 'load':
      return expectStatus(trial, 'load', trial.admin.load(disturbance.model), [200, 503]);
    case 'flood': {
      const account = chance.pick(
        anyAccounts(trial).filter(({ limited }) => limited === disturbance.limited),
      );
      return flood(trial, chance, account, knownRequests, disturbance.requests);
    }
    case 'flood of stories':
      return flood(
        trial,
        chance,
        chance.pick(freeAccounts(trial)),
        chance.pick(longStories),
        disturbance.requests,
      );
    case 'crowd that leaves':
      return leavingCrowd(trial, chance, disturbance.clients, disturbance.afterMs);
    case 'sequences by the thousand':
      return thousandsOfSequences(trial, disturbance.requests, disturbance.forMs);
    case 'spend twice':
      return spendTwice(trial, disturbance.holdMs);
    case 'twin':
      return startTwin(trial, chance, disturbance.batches, disturbance.lines);
    case 'make and revoke a key':
      return makeAndRevokeKey(trial, chance);
    case 'reload':
      // In a terminal it is the terminal that has gone, and the server ends.
      if (!trial.server.settings.terminal) trial.server.process.signal('SIGHUP');
      return Promise.resolve();
    case 'lock the database':
      return lockDatabase(trial, chance, disturbance.forMs);
    case 'stall an event reader':
      return stallEventReader(trial, disturbance.forMs);
    case 'garbage on the wire':
      return sendGarbage(trial);
    case 'huge body': {
      const make = hugeRequests[disturbance.which % hugeRequests.length] as (typeof hugeRequests)[number];
      return askBad(trial, make(), chance.pick(freeAccounts(trial)));
    }
  }
}

async function expectStatus(
  trial: Trial,
  what: string,
  asked: Promise<Exchange>,
  statuses: readonly number[],
): Promise<Exchange> {
  const came = await asked;
  trial.tally.count(`admin: ${what} ${came.status ?? came.end}`);
  if (trial.outages.during(came.startedMs, came.endedMs) !== undefined) return came;
  if (came.end !== 'complete' || !statuses.includes(came.status ?? 0)) {
    const detail = `${came.end}, status ${came.status}: ${came.text.slice(0, 300)}`;
    trial.violations.add(`admin: ${what} answered wrongly`, detail);
  }
  return came;
}

/** A key opens the door from the moment it is made until the moment it is revoked. */
async function makeAndRevokeKey(trial: Trial, chance: Chance): Promise<void> {
  const name = `guest-${chance.below(1e9)}`;
  const tier = chance.pick(['high', 'normal', 'low'] as const);
  const made = await expectStatus(trial, 'make a key', trial.admin.createKey({ name, tier }), [201, 503]);
  if (made.status !== 201) return;
  const { id, key } = JSON.parse(made.text) as MadeKey;
  const guest = { name, id, key, limited: false, role: 'any' } as const;
  const way = { stream: chance.happens(0.5), manner: patient };
  await askKnown(trial, chance.pick(knownRequests), guest, way);
  const revoked = await expectStatus(trial, 'revoke a key', trial.admin.revokeKey(id), [200, 503]);
  if (revoked.status !== 200) return;
  await askKnown(trial, chance.pick(knownRequests), guest, { ...way, revoked: true });
}

/** Answers need no database; new keys do, and may be refused for the time being. */
async function lockDatabase(trial: Trial, chance: Chance, forMs: number): Promise<void> {
  const held = await whileLocked(trial.server.database, async () => {
    const untilMs = performance.now() + forMs;
    const name = `locked-out-${chance.below(1e9)}`;
    const made = await expectStatus(
      trial,
      'make a key while the database is locked',
      trial.admin.createKey({ name, tier: 'low' }),
      [201, 503],
    );
    if (made.status === 201) await trial.admin.revokeKey((JSON.parse(made.text) as MadeKey).id);
    await sleep(Math.max(0, untilMs - performance.now()));
  });
  if (!held) trial.timeline.note('could not lock the database');
}

/** Asks for all events and reads none. */
async function stallEventReader(trial: Trial, forMs: number): Promise<void> {
  const { hostname, port } = new URL(trial.server.url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {});
  socket.pause();
  socket.write(
    `GET /admin/events HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: Bearer ${trial.admin.key}\r\n\r\n`,
  );
  await sleep(forMs);
  socket.destroy();
}
