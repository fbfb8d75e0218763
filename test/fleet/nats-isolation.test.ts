// Fleets that share a NATS server, by accounts or by names: neither sees the other's nodes, hears its requests, or reads what it
// keeps.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import type { JoinedFleet } from '../../src/app/join-fleet.ts';
import { type Bucket, openBucket } from '../../src/fleet/bucket.ts';
import { Subjects } from '../../src/fleet/bus.ts';
import { natsPermissions, permissionsText } from '../../src/fleet/nats-permissions.ts';
import { DesiredState } from '../../src/fleet/placement.ts';
import type { KeptRequest } from '../../src/server/context.ts';
import { type Given, gatewayOf, type Log, linkOf } from '../support/fleet-link.ts';
import { NatsOperator } from '../support/nats-accounts.ts';
import { natsRefusal, startNats } from '../support/nats-server.ts';
import { waitUntil } from '../support/server-process.ts';

const refusal = natsRefusal();
const folder = mkdtempSync(join(tmpdir(), 'chairlift-nats-'));
const endings: (() => unknown)[] = [];

afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function server(name: string, ...settings: readonly string[]): Promise<string> {
  const store = `jetstream { store_dir: "${join(folder, name)}" }`;
  const started = await startNats(folder, store, ...settings);
  endings.push(() => started.stop());
  return `nats://127.0.0.1:${started.port}`;
}

const log: Log = [];

async function gateway(given: Given, node: string): Promise<JoinedFleet> {
  const joined = await gatewayOf({ ...given, node }, log);
  endings.push(() => joined.close(0));
  return joined;
}

const namesOf = ({ membership }: JoinedFleet) =>
  membership
    .all()
    .map(({ node }) => node)
    .sort();

/** Resolves when it has heard the node once more. */
function hears({ membership }: JoinedFleet, node: string): Promise<void> {
  return new Promise((resolve) => {
    const end = membership.onStatus((status) => {
      if (status.node !== node) return;
      end();
      resolve();
    });
  });
}

const request = { id: 'req-1', keyId: 'key-1', body: '{}' } as unknown as KeptRequest;

/** Two nodes in each, one of them by the same name in both. */
async function expectApart(ours: Given, theirs: Given): Promise<void> {
  const [own, other] = [
    [await gateway(ours, 'same'), await gateway(ours, 'own')],
    [await gateway(theirs, 'same'), await gateway(theirs, 'other')],
  ] as const;
  await waitUntil(() => [...own, ...other].every((one) => namesOf(one).length >= 2));
  // All statuses have been at the server. One that was on its way before them may come first.
  for (let i = 0; i < 2; i++) await Promise.all([hears(own[0], 'own'), hears(other[0], 'other')]);
  for (const one of own) expect(namesOf(one)).toEqual(['own', 'same']);
  for (const one of other) expect(namesOf(one)).toEqual(['other', 'same']);

  await own[0].archive?.keep(request);
  expect(await own[1].archive?.find('key-1', 'req-1')).toEqual(request);
  expect(await other[1].archive?.find('key-1', 'req-1')).toBeUndefined();

  const wanted = { model: 'm', replicas: 2, nodes: [] };
  await (await desiredOf(ours)).place(wanted);
  expect((await own[1].control?.view())?.placements).toEqual([{ ...wanted, placedOn: [] }]);
  expect((await other[1].control?.view())?.placements).toEqual([]);
  // Neither of two nodes by one name has heard of the other.
  expect(log.filter((line) => (JSON.parse(line) as { level: number }).level > 30)).toEqual([]);
}

/** Placed without asking whether a worker has the model. */
async function desiredOf(given: Given): Promise<DesiredState> {
  const bus = await linkOf(given);
  endings.push(() => bus.close());
  const name = `chairlift-${given.fleet ?? 'main'}-state`;
  const bucket = (await openBucket(bus.connection, name, { storage: 'file' }, expect.unreachable)) as Bucket;
  endings.push(() => bucket.close());
  return new DesiredState(bucket.values);
}

/** What is said to a worker by a gateway of its own fleet is heard by that fleet's worker alone. */
async function expectUnheard(ours: Given, theirs: Given): Promise<void> {
  const [own, other] = await Promise.all([linkOf(ours), linkOf(theirs)]);
  endings.push(
    () => own.close(),
    () => other.close(),
  );
  const heard: unknown[] = [];
  const subjectsOf = ({ fleet }: Given) => new Subjects(String(fleet ?? 'main'));
  other.subscribe(subjectsOf(theirs).work('w'), (message) => heard.push(message));
  other.subscribe(subjectsOf(theirs).ask('v'), () => heard.push('asked'));
  await other.connection.flush();
  own.publish(subjectsOf(ours).work('w'), 'of ours');
  await expect(own.request(subjectsOf(ours).ask('v'), 'of ours', 30_000)).rejects.toThrow(/nobody listens/);
  other.publish(subjectsOf(theirs).work('w'), 'of theirs');
  await waitUntil(() => heard.length > 0);
  expect(heard).toEqual(['of theirs']);
}

describe.skipIf(refusal !== undefined)(
  `fleets on one NATS server${refusal === undefined ? '' : ` (${refusal})`}`,
  () => {
    it('are apart in different accounts, though all their names are the same', async () => {
      const operator = new NatsOperator('ONE', 'TWO');
      const address = await server('accounts', ...operator.settings);
      const [ours, theirs] = ['ONE', 'TWO'].map((account) => {
        const natsCredentials = join(folder, `${account}.creds`);
        writeFileSync(natsCredentials, operator.userOf(account));
        return { join: address, natsCredentials };
      }) as [Given, Given];
      await expectApart(ours, theirs);
      await expectUnheard(ours, theirs);
    });

    it('are held apart by users who have the permissions of their fleet alone', async () => {
      const user = (fleet: string) =>
        `{ user: ${fleet}, password: p, ${permissionsText(natsPermissions({ fleet, roles: ['worker', 'gateway'] }))} }`;
      const address = await server('users', `authorization { users: [${user('one')}, ${user('two')}] }`);
      const [ours, theirs] = ['one', 'two'].map((fleet) => ({
        join: address,
        fleet,
        natsUser: fleet,
        natsPassword: 'p',
      })) as [Given, Given];
      await expectApart(ours, theirs);
      await expectUnheard(ours, theirs);
      const told: Log = [];
      const intruder = await linkOf({ ...ours, natsUser: 'two' }, told);
      endings.push(() => intruder.close());
      intruder.subscribe(new Subjects('one').everyStatus, () => expect.unreachable());
      intruder.publish(new Subjects('one').work('w'), 'of theirs');
      await waitUntil(() => told.filter((line) => /permissions violation/i.test(line)).length === 2);
    });

    it('are apart by their names', async () => {
      const address = await server('names');
      const [ours, theirs] = [
        { join: address, fleet: 'one' },
        { join: address, fleet: 'one-requests' },
      ];
      await expectApart(ours, theirs);
      await expectUnheard(ours, theirs);
    });
  },
);
