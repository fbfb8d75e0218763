// Nodes that are neither well nor dead: held up, deaf, hung, or with a wrong clock. Requests go on beside them.

import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { inputLine } from '../support/batch-server.ts';
import { FleetBatch } from '../support/fleet-batch.ts';
import { askFleet } from '../support/fleet-client.ts';
import { natsRefusal } from '../support/nats-server.ts';
import { missingPostgres, PostgresServer } from '../support/postgres.ts';
import { isAlive, type ServerProcess, waitUntil } from '../support/server-process.ts';
import { contentOf, SmallFleet } from '../support/small-fleet.ts';

const refusal = natsRefusal();
const LIMIT_MS = 120_000;
/** Of Debian's `faketime`. */
const faketime = ['x86_64', 'aarch64']
  .map((machine) => `/usr/lib/${machine}-linux-gnu/faketime/libfaketimeMT.so.1`)
  .find((path) => existsSync(path));

const bodyOf = (i: number, maxTokens: number) => ({
  messages: [{ role: 'user', content: `Tell me a story about animal number ${i}.` }],
  temperature: 0,
  max_tokens: maxTokens,
  ignore_eos: true,
});

const logged = ({ log }: ServerProcess, text: string) => log().split(text).length - 1;

const title = `a node${refusal === undefined ? '' : ` (${refusal})`}`;

describe.skipIf(refusal !== undefined)(title, () => {
  let fleet: SmallFleet;
  afterEach(() => fleet?.stop());

  it('that was held up takes nobody for dead, and moves no request', async () => {
    fleet = await SmallFleet.start();
    for (const name of ['w1', 'w2']) await fleet.worker(name);
    const gateway = await fleet.gateway('g');
    const client = { gateways: [gateway.url], limitMs: LIMIT_MS };
    const sent = fleet.count('chairlift.main.work.>');
    const askedMs = performance.now();
    const answers = Promise.all(
      Array.from({ length: 8 }, (_, i) => askFleet(client, `held-${i}`, bodyOf(i, 600))),
    );
    await sleep(1500);
    gateway.signal('SIGSTOP');
    await sleep(4500);
    gateway.signal('SIGCONT');
    expect((await answers).map(({ returns }) => returns)).toEqual(Array(8).fill(0));
    expect(logged(gateway, 'has left the fleet')).toBe(0);
    const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
    expect(/^chairlift_fleet_reassignments_total (\S+)$/m.exec(metrics)?.[1]).toBe('0');
    // A submission and a settlement each, and at most two messages for each of two reports a second.
    const seconds = (performance.now() - askedMs) / 1000;
    expect(sent()).toBeLessThan(8 * (2 + 4 * seconds));
  });

  it('that hears nothing of what it is sent gets few requests, and none waits for it for long', async () => {
    fleet = await SmallFleet.start({ muffled: { publish: ['chairlift.main.work.w1'] } });
    for (const name of ['w1', 'w2']) await fleet.worker(name);
    const gateway = await fleet.gateway('g', { user: 'muffled' });
    const client = { gateways: [gateway.url], limitMs: LIMIT_MS };
    // Both workers are known, and equally good.
    await fleet.knows(gateway, 'w1', 'w2');
    const timesMs: number[] = [];
    for (let i = 0; i < 12; i++) {
      const askedMs = performance.now();
      await Promise.all([0, 1].map((n) => askFleet(client, `muffled-${i}-${n}`, bodyOf(2 * i + n, 4))));
      timesMs.push(performance.now() - askedMs);
    }
    expect(Math.max(...timesMs)).toBeLessThan(30_000);
    expect(timesMs.filter((ms) => ms > 4000).length).toBeLessThan(4);
  });

  it('that may not listen to its work leaves the fleet, and says why', async () => {
    fleet = await SmallFleet.start({ deaf: { subscribe: ['chairlift.main.work.w1'] } });
    await fleet.worker('w2');
    const gateway = await fleet.gateway('g');
    const statuses = fleet.count('chairlift.main.status.w1');
    const deaf = await fleet.worker('w1', { user: 'deaf' });
    await waitUntil(() => logged(deaf, 'leaves the fleet as a worker') === 1);
    expect(deaf.log()).toMatch(/may not subscribe to chairlift\.main\.work\.w1/);
    const before = statuses();
    await sleep(2000);
    expect(statuses()).toBe(before);
    const client = { gateways: [gateway.url], limitMs: LIMIT_MS };
    await Promise.all(Array.from({ length: 6 }, (_, i) => askFleet(client, `deaf-${i}`, bodyOf(i, 4))));
  });

  it('whose engine hangs is avoided, and what it had goes on elsewhere', async () => {
    fleet = await SmallFleet.start();
    const first = await fleet.worker('w1');
    const gateway = await fleet.gateway('g');
    const client = { gateways: [gateway.url], limitMs: LIMIT_MS };
    const began = askFleet(client, 'hung-0', bodyOf(0, 600));
    await sleep(1000);
    await fleet.worker('w2');
    await fleet.knows(gateway, 'w1', 'w2');
    const hungMs = performance.now();
    const hung = first.enginePid();
    process.kill(hung, 'SIGSTOP');
    try {
      await sleep(7000);
      const askedMs = performance.now();
      await Promise.all(
        Array.from({ length: 6 }, (_, i) => askFleet(client, `hung-${i + 1}`, bodyOf(i + 1, 4))),
      );
      expect(performance.now() - askedMs).toBeLessThan(20_000);
      await began;
      expect(performance.now() - hungMs).toBeLessThan(30_000);
    } finally {
      // Else it never notices that its worker is gone, and stays.
      if (isAlive(hung)) process.kill(hung, 'SIGCONT');
    }
  });

  it.skipIf(faketime === undefined)(
    'whose clock is 300 s ahead serves like any other, and is told of',
    async () => {
      fleet = await SmallFleet.start();
      await fleet.worker('w1');
      const right = await fleet.gateway('g1');
      const environment = { LD_PRELOAD: faketime, FAKETIME: '+300s', FAKETIME_DONT_FAKE_MONOTONIC: '1' };
      const ahead = await fleet.gateway('g2', { environment });
      // The same request, taken up at one gateway after the other.
      const body = bodyOf(1, 40);
      const alone = await askFleet({ gateways: [right.url], limitMs: LIMIT_MS }, 'alone', body);
      const { body: begun } = await fleet.open(right.url, 'moved', body);
      await begun?.cancel();
      for (const { url } of [ahead, right, ahead, right]) {
        expect(await fleet.resume(url, 'moved')).toBe(alone.text);
      }
      // Requests of both are of the same age, and neither waits for the other's.
      const answers = [right, ahead].flatMap(({ url }, at) =>
        [0, 1, 2].map((i) =>
          askFleet({ gateways: [url], limitMs: LIMIT_MS }, `aged-${at}-${i}`, bodyOf(i, 20)),
        ),
      );
      await Promise.all(answers);
      await waitUntil(() => /the clock of g2 is (299|300|301) s ahead/.test(right.log()));
      const metrics = await (await fetch(`${right.url}/metrics`)).text();
      expect(Number(/^chairlift_fleet_clock_skew_seconds (\S+)$/m.exec(metrics)?.[1])).toBeCloseTo(300, -1);
    },
  );

  it.skipIf(faketime === undefined || missingPostgres !== undefined)(
    'whose clock is 25 h ahead ends no batch before its time, and takes no line that another runs',
    async () => {
      const postgres = await PostgresServer.start();
      try {
        const database = await postgres.createDatabase();
        fleet = await SmallFleet.start();
        await fleet.worker('w1');
        const right = await fleet.gateway('g1', { database });
        const environment = { LD_PRELOAD: faketime, FAKETIME: '+25h', FAKETIME_DONT_FAKE_MONOTONIC: '1' };
        await fleet.gateway('g2', { database, environment });
        const lines = Array.from({ length: 60 }, (_, i) =>
          inputLine(`line-${i}`, { prompt: `Animal ${i}`, max_tokens: 24 }, '/v1/completions'),
        );
        const batch = await FleetBatch.begin([right.url], '', lines);
        const ended = await batch.until(
          ({ status }) => ['completed', 'expired', 'failed'].includes(status),
          LIMIT_MS,
        );
        expect(ended).toMatchObject({
          status: 'completed',
          request_counts: { total: 60, completed: 60, failed: 0 },
        });
        expect(await postgres.execute(database, 'select sum(requests) as requests from key_usage')).toEqual([
          { requests: '60' },
        ]);
      } finally {
        await fleet.stop();
        await postgres.stop();
      }
    },
  );
});

describe.skipIf(refusal !== undefined || missingPostgres !== undefined)(
  'a stream that is asked for again',
  () => {
    let postgres: PostgresServer;
    let fleet: SmallFleet;
    let database: string;
    beforeAll(async () => {
      postgres = await PostgresServer.start();
      database = await postgres.createDatabase();
      fleet = await SmallFleet.start();
      await fleet.worker('w1');
    });
    afterAll(async () => {
      await fleet?.stop();
      await postgres?.stop();
    });

    it('while it runs is charged whole, and once', async () => {
      const gateway = await fleet.gateway('g1', { database });
      const tokens = 300;
      // The first is still read while the second asks for all of it again.
      const first = await fleet.open(gateway.url, 'twice', bodyOf(1, tokens));
      await first.body?.getReader().read();
      const whole = await fleet.resume(gateway.url, 'twice');
      expect(whole.length).toBeGreaterThan(tokens / 2);
      const charged = async () => {
        const rows = await postgres.execute(
          database,
          'select sum(requests)::int as requests, sum(completion_tokens)::int as tokens from key_usage',
        );
        return rows[0];
      };
      await expect.poll(charged, { timeout: 20_000 }).toEqual({ requests: 1, tokens });
      expect(await fleet.resume(gateway.url, 'twice')).toBe(whole);
      await sleep(1000);
      expect(await charged()).toEqual({ requests: 1, tokens });
    });

    it('at another gateway ends at the first at once, which gives its place back', async () => {
      const [g1, g2] = [await fleet.gateway('g3', { database }), await fleet.gateway('g4', { database })];
      const key = fleet.createKey(database, 'two', '--max-concurrent', '2');
      await waitUntil(async () => (await fleet.open(g1.url, 'known', bodyOf(0, 1), key)).ok);
      const first = await fleet.open(g1.url, 'taken', bodyOf(1, 900), key);
      expect(first.status).toBe(200);
      // Gateways give places back after the answer: the one of `known` may be taken still.
      let second = await fleet.open(g2.url, 'taken', undefined, key);
      while (second.status === 429) second = await fleet.open(g2.url, 'taken', undefined, key);
      expect(second.status).toBe(200);
      // While the second still runs.
      expect(await first.text()).toMatch(/"code":"superseded"/);
      let hasEnded = false;
      const rest = second.text().finally(() => {
        hasEnded = true;
      });
      await waitUntil(async () => hasEnded || (await fleet.open(g1.url, 'third', bodyOf(2, 4), key)).ok);
      expect(hasEnded).toBe(false);
      const text = await rest;
      expect(text).toMatch(/\[DONE\]/);
      expect(contentOf(text).length).toBeGreaterThan(450);
    });
  },
);
