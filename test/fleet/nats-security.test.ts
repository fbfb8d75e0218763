// A node and real NATS servers that ask for credentials and certificates: it comes in with the right ones alone, and never tells what
// they are.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { nkeys } from '@nats-io/transport-node';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { NatsBus } from '../../src/fleet/nats-bus.ts';
import { Authority, type Certificate, certificatesRefusal } from '../support/certificates.ts';
import { type Given, type Log, linkOf } from '../support/fleet-link.ts';
import { NatsOperator, seedOf } from '../support/nats-accounts.ts';
import { type NatsServer, natsRefusal, startNats } from '../support/nats-server.ts';
import { waitUntil } from '../support/server-process.ts';

const withoutNats = natsRefusal();
const withoutTls = withoutNats ?? certificatesRefusal();
const because = (reason: string | undefined) => (reason === undefined ? '' : ` (${reason})`);

const folder = mkdtempSync(join(tmpdir(), 'chairlift-nats-'));
const endings: (() => unknown)[] = [];

afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function server(...settings: readonly string[]): Promise<NatsServer> {
  const started = await startNats(folder, ...settings);
  endings.push(() => started.stop());
  return started;
}

/** For those who are waited for in vain: nothing is different after a longer time. */
const impatient = { timeout: 500 };

let written = 0;

function fileWith(content: string): string {
  const path = join(folder, `file-${++written}`);
  writeFileSync(path, content, { mode: 0o600 });
  return path;
}

const userFiles = ['natsCredentials', 'natsNkey', 'natsKey'] as const;

/** What nobody may read anywhere. */
function secretsOf(given: Given): string[] {
  const inFiles = userFiles
    .filter((name) => given[name] !== undefined)
    .flatMap((name) => readFileSync(String(given[name]), 'utf8').split('\n'))
    .filter((line) => /^[\w+/=.-]{40,}$/.test(line) && !line.startsWith('-'));
  return [given.natsPassword, given.natsToken, ...inFiles].filter((secret) => typeof secret === 'string');
}

/** It comes in, and what it says goes round. */
async function expectJoins(given: Given): Promise<NatsBus> {
  const log: Log = [];
  const bus = await linkOf(given, log);
  endings.push(() => bus.close());
  bus.subscribe('chairlift.main.echo', (message, reply) => reply?.(message));
  expect(await bus.request('chairlift.main.echo', { said: 'hello' }, 30_000)).toEqual({ said: 'hello' });
  for (const secret of secretsOf(given)) expect(log.join('')).not.toContain(secret);
  return bus;
}

async function expectRefused(
  given: Given,
  words: RegExp,
  changes?: Parameters<typeof linkOf>[2],
): Promise<void> {
  const log: Log = [];
  const problem = await linkOf(given, log, changes).then(
    async (bus) => {
      await bus.close();
      return 'it came in';
    },
    (error: Error) => `${error.message} ${JSON.stringify(error)}`,
  );
  expect(problem).toMatch(words);
  for (const secret of secretsOf(given)) expect(problem + log.join('')).not.toContain(secret);
}

describe.skipIf(withoutNats !== undefined)(`credentials at a NATS server${because(withoutNats)}`, () => {
  it('takes a user with the right password alone', async () => {
    const { port } = await server('authorization { user: fleet, password: "swordfish-1" }');
    const join = `nats://127.0.0.1:${port}`;
    await expectJoins({ join, natsUser: 'fleet', natsPassword: 'swordfish-1' });
    await expectRefused(
      { join, natsUser: 'fleet', natsPassword: 'swordfish-2' },
      /refuses this user and password/,
    );
    await expectRefused({ join, natsToken: 'swordfish-1' }, /refuses this token/);
    await expectRefused({ join }, /asks for credentials: give --nats-user, --nats-token/);
  });

  it('takes the right token alone', async () => {
    const { port } = await server('authorization { token: "open-sesame-1" }');
    const join = `nats://127.0.0.1:${port}`;
    await expectJoins({ join, natsToken: 'open-sesame-1' });
    await expectRefused({ join, natsToken: 'open-sesame-2' }, /refuses this token \(--nats-token\)/);
    await expectRefused({ join }, /asks for credentials/);
  });

  it('takes the right nkey alone, from a file with anything around it', async () => {
    const [own, other] = [nkeys.createUser(), nkeys.createUser()];
    const { port } = await server(`authorization { users: [{ nkey: ${own.getPublicKey()} }] }`);
    const join = `nats://127.0.0.1:${port}`;
    await expectJoins({ join, natsNkey: fileWith(seedOf(own)) });
    await expectJoins({ join, natsNkey: fileWith(`${seedOf(own)}\r\n${own.getPublicKey()}\r\n`) });
    await expectRefused({ join, natsNkey: fileWith(`${seedOf(other)}\n`) }, /does not know the nkey in/);
    await expectRefused({ join }, /asks for credentials/);
  });

  it('takes credentials of an account of its operator alone', async () => {
    const operator = new NatsOperator('FLEET');
    const { port } = await server(...operator.settings);
    const join = `nats://127.0.0.1:${port}`;
    const own = operator.userOf('FLEET');
    await expectJoins({ join, natsCredentials: fileWith(own) });
    await expectJoins({ join, natsCredentials: fileWith(own.replaceAll('\n', '\r\n')) });
    const unknown = fileWith(new NatsOperator('FLEET').userOf('FLEET'));
    await expectRefused({ join, natsCredentials: unknown }, /refuses the credentials in/);
    await expectRefused({ join }, /asks for credentials/);
  });

  it('is back once a refused nkey was renewed on the disk, and complains once', async () => {
    const [old, renewed] = [nkeys.createUser(), nkeys.createUser()];
    const users = (key: typeof old) => `authorization { users: [{ nkey: ${key.getPublicKey()} }] }`;
    const { port, log, reload } = await server(users(old));
    const file = fileWith(seedOf(old));
    const told: Log = [];
    const bus = await linkOf({ join: `nats://127.0.0.1:${port}`, natsNkey: file }, told);
    endings.push(() => bus.close());
    bus.subscribe('chairlift.main.echo', (message, reply) => reply?.(message));
    await reload(users(renewed));
    await waitUntil(() => log().split('authentication error').length > 3);
    expect(bus.state).toBe('cut-off');
    writeFileSync(file, seedOf(renewed));
    await waitUntil(() => bus.state === 'connected');
    expect(await bus.request('chairlift.main.echo', 'again', 30_000)).toBe('again');
    expect(told.filter((line) => /authorization violation/i.test(line))).toHaveLength(1);
  });
});

describe.skipIf(withoutNats !== undefined)(`a NATS server for everyone${because(withoutNats)}`, () => {
  // Of this machine, but not known to be: what listens on loopback is reached by it.
  const elsewhere = (port: number) => `nats://0.0.0.0:${port}`;

  it('is used on this machine alone, or where that was said', async () => {
    const { port } = await server();
    await expectJoins({ join: `nats://127.0.0.1:${port}` });
    await expectJoins({ join: `localhost:${port}` });
    await expectJoins({ join: elsewhere(port), allowAnonymous: true });
    await expectRefused({ join: elsewhere(port) }, /0\.0\.0\.0 asks for no credentials.*give it accounts/);
    // A password that nobody asks for keeps nobody out.
    await expectRefused(
      { join: elsewhere(port), natsUser: 'fleet', natsPassword: 'swordfish-1' },
      /asks for no credentials/,
    );
  });

  it('is refused where unknown clients become some user', async () => {
    const { port } = await server(
      'authorization { users: [{ user: any, password: one }] }',
      'no_auth_user: any',
    );
    await expectRefused({ join: elsewhere(port) }, /asks for no credentials/);
  });

  it('is left where it lets everyone in later', async () => {
    const user = 'authorization { user: fleet, password: "swordfish-1" }';
    const { port, reload, log } = await server(user);
    const told: Log = [];
    const given = { join: elsewhere(port), natsUser: 'fleet', natsPassword: 'swordfish-1' };
    const bus = await linkOf(given, told);
    endings.push(() => bus.close());
    await reload();
    await bus.connection.reconnect();
    await waitUntil(() => told.some((line) => line.includes('asks for no credentials')));
    expect(bus.state).toBe('cut-off');
    await reload(user);
    await waitUntil(() => bus.state === 'connected');
    expect(log()).not.toContain('authentication error');
  });
});

describe.skipIf(withoutTls !== undefined)(`TLS to a NATS server${because(withoutTls)}`, () => {
  let ours: Authority;
  let theirs: Authority;
  let byAddress: Certificate;
  let byName: Certificate;

  const user = 'authorization { user: fleet, password: "swordfish-1" }';
  const known = { natsUser: 'fleet', natsPassword: 'swordfish-1' };
  const tls = ({ cert, key }: Certificate, ...more: readonly string[]) =>
    `tls { cert_file: "${cert}", key_file: "${key}", ${more.join(', ')} }`;

  beforeAll(() => {
    ours = new Authority(folder, 'ours');
    theirs = new Authority(folder, 'theirs');
    byAddress = ours.sign('by-address', 'IP:127.0.0.1');
    byName = ours.sign('by-name', 'DNS:localhost');
  });

  it('trusts certificates that rest on the named ones alone', async () => {
    const { port } = await server(user, tls(byAddress));
    const join = `tls://127.0.0.1:${port}`;
    await expectJoins({ ...known, join, natsCa: ours.cert });
    await expectJoins({ ...known, join: `nats://127.0.0.1:${port}`, natsCa: ours.cert });
    const other = { ...known, natsCa: theirs.cert };
    await expectRefused({ ...other, join }, /rests on none of those in .*theirs\.pem \(--nats-ca\)/);
    await expectRefused({ ...known, join }, /rests on none that is trusted here.*--nats-ca/);
    await expectRefused({ ...known, join: `nats://127.0.0.1:${port}` }, /trusted here.*--nats-ca/);
    await expectRefused({ join, natsCa: ours.cert }, /asks for credentials/);
  });

  it('takes no certificate of another server', async () => {
    const [first, second] = [await server(user, tls(byAddress)), await server(user, tls(byName))];
    const secure = { ...known, natsCa: ours.cert };
    await expectJoins({ ...secure, join: `tls://localhost:${second.port}` });
    const words = /certificate is for another server.*join it by a name that is in its certificate/;
    await expectRefused({ ...secure, join: `tls://localhost:${first.port}` }, words);
    await expectRefused({ ...secure, join: `tls://127.0.0.1:${second.port}` }, words);
  });

  it('shows its own certificate where one is asked for', async () => {
    const { port } = await server(tls(byAddress, `ca_file: "${ours.cert}"`, 'verify: true'));
    const secure = { join: `tls://127.0.0.1:${port}`, natsCa: ours.cert };
    const shown = ({ cert, key }: Certificate) => ({ natsCert: cert, natsKey: key });
    await expectJoins({ ...secure, ...shown(ours.sign('node')) });
    // A client is known by that certificate: no other credentials are needed.
    await expectJoins({ ...secure, ...shown(ours.sign('node-2')), join: `tls://0.0.0.0:${port}` });
    const unknown = { ...secure, ...shown(theirs.sign('unknown')) };
    await expectRefused(secure, /does it ask for a certificate of this node \(--nats-cert/, impatient);
    await expectRefused(unknown, /does it not take the certificate in .*unknown\.pem/, impatient);
    // Before TLS 1.3 the client is told.
    const older = { tls: { maxVersion: 'TLSv1.2' } as object };
    await expectRefused(secure, /asks for a certificate of this node: give --nats-cert and/, older);
    await expectRefused(unknown, /does not take the certificate in .*unknown\.pem \(--nats-cert\)/, older);
  });

  it('takes TLS and credentials of an operator together', async () => {
    const operator = new NatsOperator('FLEET');
    const { port } = await server(...operator.settings, tls(byAddress));
    const join = `tls://127.0.0.1:${port}`;
    const natsCredentials = fileWith(operator.userOf('FLEET'));
    await expectJoins({ join, natsCa: ours.cert, natsCredentials });
    await expectRefused({ join, natsCa: theirs.cert, natsCredentials }, /rests on none of those/);
    await expectRefused({ join, natsCa: ours.cert }, /asks for credentials/);
  });
});

describe('a server that is none, or speaks no TLS', () => {
  const heard: string[] = [];

  /** Greets as told, and writes down what it is told. */
  function speaker(greeting: string): Promise<number> {
    const listening: Server = createServer((socket) => {
      socket.on('error', () => {}).on('data', (data) => heard.push(data.toString('utf8')));
      socket.write(greeting);
    });
    endings.push(() => listening.close());
    return new Promise((resolve) => {
      listening.listen(0, '127.0.0.1', () => resolve((listening.address() as { port: number }).port));
    });
  }

  it('hears no credentials in the clear where TLS was asked for', async () => {
    const info = { server_id: 'x', version: '2.9.0', proto: 1, max_payload: 2 ** 20, auth_required: true };
    const port = await speaker(`INFO ${JSON.stringify(info)}\r\n`);
    const given = { natsUser: 'fleet', natsPassword: 'swordfish-1' };
    const words = /speaks no TLS, and nothing is sent in the clear/;
    await expectRefused({ ...given, join: `tls://127.0.0.1:${port}` }, words);
    await expectRefused({ ...given, join: `nats://127.0.0.1:${port},tls://127.0.0.1:${port}` }, words);
    expect(heard).toEqual([]);
  });

  it('is given up where it says nothing, or nobody is there', async () => {
    const silent = await speaker('');
    const join = `nats://127.0.0.1:${silent}`;
    await expectRefused({ join }, /does not answer as a NATS server would/, impatient);
    await expectRefused({ join: 'nats://127.0.0.1:1' }, /nothing listens there/);
    const web = await speaker('HTTP/1.1 400 Bad Request\r\n\r\n');
    await expectRefused({ join: `nats://127.0.0.1:${web}` }, /does not speak as a NATS server does/);
  });
});

describe.skipIf(withoutNats !== undefined)(`a server that is not there yet${because(withoutNats)}`, () => {
  /** Nobody listens there now, and hardly anybody will. */
  async function freePort(): Promise<number> {
    const { port, stop } = await startNats(folder);
    await stop();
    return port;
  }

  it('is waited for, which is told once', async () => {
    const port = await freePort();
    const log: Log = [];
    const linking = linkOf({ join: `nats://127.0.0.1:${port}` }, log, {}, 120_000);
    await waitUntil(() => log.length > 0);
    await server(`listen: "127.0.0.1:${port}"`);
    const bus = await linking;
    endings.push(() => bus.close());
    expect(log).toEqual([expect.stringMatching(/waits for nats:.*nothing listens there/)]);
  });

  it('is not waited for where it comes and refuses', async () => {
    const port = await freePort();
    const log: Log = [];
    const linking = linkOf({ join: `nats://127.0.0.1:${port}` }, log, {}, 120_000);
    const refused = expect(linking).rejects.toThrow(/asks for credentials/);
    await waitUntil(() => log.length > 0);
    await server(`listen: "127.0.0.1:${port}"`, 'authorization { token: "open-sesame-1" }');
    await refused;
  });

  it('is given up in the end where its name is unknown', async () => {
    await expect(linkOf({ join: 'nats://chairlift.invalid' }, [], {}, 1200)).rejects.toThrow(
      /chairlift\.invalid/,
    );
  });
});
