// A fleet whose nodes may do at a real NATS server what `chairlift fleet permissions` prints, and nothing else: it serves, and with
// the credentials of a worker nobody sees another's prompts, drains another, or reads what is kept.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, type NatsConnection } from '@nats-io/transport-node';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { addFleet } from '../../src/cli/fleet.ts';
import { Subjects } from '../../src/fleet/bus.ts';
import { natsPermissions, permissionsText } from '../../src/fleet/nats-permissions.ts';
import { toWire } from '../../src/fleet/wire.ts';
import { NatsOperator } from '../support/nats-accounts.ts';
import { type NatsServer, natsRefusal, startNats } from '../support/nats-server.ts';
import { runCommand } from '../support/run-command.ts';
import { type ServerProcess, waitUntil } from '../support/server-process.ts';
import { contentOf, SmallFleet } from '../support/small-fleet.ts';

const refusal = natsRefusal();
const because = refusal === undefined ? '' : ` (${refusal})`;
const subjects = new Subjects('main');
const state = 'chairlift-main-state';
const requests = 'chairlift-main-requests';
const body = { messages: [{ role: 'user', content: 'Tell me of a fox.' }], max_tokens: 24, temperature: 0 };

const allowed = (role: 'worker' | 'gateway', node: string) =>
  permissionsText(natsPermissions({ fleet: 'main', roles: [role], node }));

/** What the server said of what this connection may not do. */
function refusalsOf(connection: NatsConnection): string[] {
  const refusals: string[] = [];
  void (async () => {
    for await (const status of connection.status())
      if (status.type === 'error') refusals.push(status.error.message.toLowerCase());
  })();
  return refusals;
}

describe.skipIf(refusal !== undefined)(`a fleet whose nodes have permissions of their own${because}`, () => {
  let fleet: SmallFleet;
  let gateway: ServerProcess;
  let workers: readonly ServerProcess[];
  let intruder: NatsConnection;
  let refusals: string[];

  beforeAll(async () => {
    fleet = await SmallFleet.start({
      w1: allowed('worker', 'w1'),
      w2: allowed('worker', 'w2'),
      g1: allowed('gateway', 'g1'),
      g2: allowed('gateway', 'g2'),
    });
    // The first worker is there before a gateway has made what it reads.
    const first = await fleet.worker('w1', { user: 'w1' });
    gateway = await fleet.gateway('g1', { user: 'g1' });
    workers = [first, await fleet.worker('w2', { user: 'w2' })];
    await fleet.knows(gateway, 'w1', 'w2');
    intruder = await connect({ port: fleet.nats.port, user: 'w1', pass: 'w1' });
    refusals = refusalsOf(intruder);
  });

  afterAll(async () => {
    await intruder?.close();
    await fleet?.stop();
  });

  const post = (path: string, content: object) =>
    fetch(`${gateway.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(content),
    });
  const view = async () =>
    (await (await fetch(`${gateway.url}/admin/fleet`)).json()) as {
      nodes: { node: string; draining: boolean }[];
      drained: string[];
      placements: { placedOn: string[] }[];
    };

  it('answers, resumes at another gateway, places and drains, and is refused nothing', async () => {
    const streamed = await fleet.open(gateway.url, 'req-1', body);
    const text = contentOf(await streamed.text());
    expect(text.length).toBeGreaterThan(10);
    const other = await fleet.gateway('g2', { user: 'g2' });
    expect(await fleet.resume(other.url, 'req-1')).toBe(text);
    const grammar = { type: 'json_schema', json_schema: { name: 'n', schema: { enum: ['yes', 'no'] } } };
    const constrained = await post('/v1/chat/completions', { ...body, response_format: grammar });
    expect(['"yes"', '"no"']).toContain(
      ((await constrained.json()) as { choices: [{ message: { content: string } }] }).choices[0].message
        .content,
    );
    const model = 'chairlift-demo-14m-q8_0';
    expect((await post('/admin/fleet/place', { model, replicas: 2, nodes: [] })).ok).toBe(true);
    expect((await post('/admin/fleet/drain', { node: 'w2', on: true })).ok).toBe(true);
    await waitUntil(async () => (await view()).nodes.some(({ node, draining }) => node === 'w2' && draining));
    expect((await view()).drained).toEqual(['w2']);
    expect((await post('/admin/fleet/drain', { node: 'w2', on: false })).ok).toBe(true);
    await waitUntil(async () => (await view()).nodes.every(({ draining }) => !draining));
    // Workers read what is desired every two seconds.
    await waitUntil(async () => (await view()).placements[0]?.placedOn.length === 2);
    const logs = [gateway, other, ...workers].map(({ log }) => log()).join('');
    expect(logs).not.toMatch(/permission|keeps no/i);
  });

  it.each([
    ['work of another', subjects.work('w2')],
    ['questions to another', subjects.ask('w2')],
    ['answers to a gateway', subjects.news('g1')],
    ['inbox of a gateway', `${subjects.inbox('g1')}.>`],
    ['inboxes of all', '_INBOX.>'],
    ['prefixes of others', subjects.everyPrefixes],
    ['statuses of others', subjects.everyStatus],
    ['everything of the fleet', 'chairlift.main.>'],
    ['values of the archive', `$KV.${requests}.>`],
    ['everything', '>'],
  ])('does not let a worker hear the %s', async (_, subject) => {
    refusals.length = 0;
    intruder.subscribe(subject, { callback: () => {} });
    await intruder.flush();
    await waitUntil(() => refusals.some((one) => one.includes(`subscription to "${subject.toLowerCase()}"`)));
  });

  it.each([
    ['give work to another', subjects.work('w2')],
    ['drain another by a question', subjects.ask('w2')],
    ['drain another by what is desired', `$KV.${state}.drained`],
    ['keep or change a request', `$KV.${requests}.x`],
    ['speak as another', subjects.status('w2')],
    ['speak as a gateway', subjects.summary('g1')],
    ['tell prefixes of another', subjects.prefixes('w2')],
    ['read the archive', `$JS.API.DIRECT.GET.KV_${requests}.$KV.${requests}.x`],
    ['read the archive by its number', `$JS.API.STREAM.MSG.GET.KV_${requests}`],
    ['follow the archive', `$JS.API.CONSUMER.CREATE.KV_${requests}`],
    ['copy work into a stream of its own', '$JS.API.STREAM.CREATE.copy'],
    ['empty what is desired', `$JS.API.STREAM.PURGE.KV_${state}`],
    ['delete what is desired', `$JS.API.STREAM.DELETE.KV_${state}`],
    ['answer what nobody asked it', `${subjects.inbox('g1')}.x`],
  ])('does not let a worker %s', async (_, subject) => {
    refusals.length = 0;
    intruder.publish(subject, toWire({ kind: 'drain', on: true }));
    await intruder.flush();
    await waitUntil(() => refusals.some((one) => one.includes(`publish to "${subject.toLowerCase()}"`)));
    expect((await view()).drained).toEqual([]);
  });
});

describe.skipIf(refusal !== undefined)(`permissions of an account's users${because}`, () => {
  const folder = mkdtempSync(join(tmpdir(), 'chairlift-nats-'));
  let nats: NatsServer;

  afterAll(async () => {
    await nats?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  it('are each their own by a template with the name of the user', async () => {
    const operator = new NatsOperator('FLEET');
    const node = '{{name()}}';
    const { publish, subscribe, responses } = natsPermissions({ fleet: 'main', roles: ['worker'], node });
    const worker = operator.scopeOf('FLEET', {
      pub: { allow: publish },
      sub: { allow: subscribe },
      resp: { max: responses.max, ttl: responses.seconds * 1e9 },
    });
    nats = await startNats(folder, ...operator.settings);
    const { credsAuthenticator } = await import('@nats-io/transport-node');
    const authenticator = credsAuthenticator(new TextEncoder().encode(worker.userOf('w1')));
    const connection = await connect({ port: nats.port, authenticator, inboxPrefix: subjects.inbox('w1') });
    const refusals = refusalsOf(connection);
    connection.subscribe(subjects.work('w1'), { callback: () => {} });
    connection.subscribe(subjects.work('w2'), { callback: () => {} });
    connection.publish(subjects.status('w1'));
    connection.publish(subjects.status('w2'));
    await connection.flush();
    await waitUntil(() => refusals.length === 2);
    expect(refusals.join()).toMatch(
      /subscription to "chairlift\.main\.work\.w2".*publish to "chairlift\.main\.status\.w2"/i,
    );
    await connection.close();
  });
});

describe('permissions that are written down', () => {
  const textOf = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

  it('are what the command prints, in docs/fleet.md', async () => {
    const { output, notes } = await runCommand(addFleet, [
      ...['fleet', 'permissions', '--role', 'worker', '--node', 'w1'],
    ]);
    expect(output).toMatch(/^permissions \{\n.*work\.w1/s);
    expect(notes).toBe('');
    expect(textOf('docs/fleet.md')).toContain(`\`\`\`\n${output}\`\`\``);
  });

  it('come with a warning where workers would share them', async () => {
    const { output, notes } = await runCommand(addFleet, ['fleet', 'permissions', '--role', 'worker']);
    expect(output).toContain('"chairlift.main.work.*"');
    expect(notes).toMatch(/can read each other’s prompts/);
  });

  it('are what ops/nats.conf has', () => {
    const text = textOf('ops/nats.conf');
    const users = [...text.matchAll(/user: (worker|gateway)(\d)\b/g)];
    expect(users.length).toBe(4);
    for (const [, role, number] of users) {
      const permissions = natsPermissions({
        fleet: 'main',
        roles: [role as 'worker' | 'gateway'],
        node: `${role}${number}`,
      });
      expect(text).toContain(permissionsText(permissions, '      '));
    }
  });
});
