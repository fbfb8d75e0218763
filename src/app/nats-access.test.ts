// Wrong settings of a message system are refused before anything starts, and secrets are not shown.

import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { nkeys } from '@nats-io/transport-node';
import { afterAll, describe, expect, it } from 'vitest';
import { credentialsFile, NatsOperator, seedOf } from '../../test/support/nats-accounts.ts';
import { resolveConfig } from '../config.ts';
import type { OptionName } from '../config-options.ts';
import { planFleet } from './join-fleet.ts';

const folder = mkdtempSync(join(tmpdir(), 'chairlift-access-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let written = 0;

function fileWith(content: string): string {
  const path = join(folder, `file-${++written}`);
  writeFileSync(path, content);
  return path;
}

type Given = Readonly<Partial<Record<OptionName, unknown>>>;

async function plan(given: Given) {
  const { config } = resolveConfig({ flags: given, environment: {}, home: folder });
  return planFleet(config);
}

const at = { join: 'nats://10.0.0.1:4222' };
const missing = join(folder, 'missing');
const pem = (name: string) => fileURLToPath(new URL(`../../test/fixtures/tls/${name}.pem`, import.meta.url));
const operator = new NatsOperator('A');
const credentials = operator.userOf('A');
const [jwt = '', seed = ''] = credentials.split('\n').filter((line) => /^[\w.-]{50,}$/.test(line));
const flipped = (text: string) => text.slice(0, 20) + (text[20] === 'A' ? 'B' : 'A') + text.slice(21);

describe('settings of a message system', () => {
  it.each<[string, Given, string]>([
    [
      'a token and credentials',
      { natsToken: 't-1', natsCredentials: fileWith(credentials) },
      'leave one of them out',
    ],
    [
      'a user and an nkey',
      { natsUser: 'u', natsPassword: 'p-1', natsNkey: fileWith(seed) },
      '--nats-nkey: --nats-user says already',
    ],
    [
      'a user without a password',
      { natsUser: 'u' },
      '--nats-user: needs its password, given as CHAIRLIFT_NATS_PASSWORD',
    ],
    ['a password without a user', { natsPassword: 'p-1' }, '--nats-password: needs --nats-user'],
    ['a certificate without a key', { natsCert: pem('cert') }, '--nats-cert: needs --nats-key'],
    ['a key without a certificate', { natsKey: pem('key') }, '--nats-key: needs --nats-cert'],
    [
      'a key of another certificate',
      { natsCert: pem('cert'), natsKey: pem('next-key') },
      'do not work together',
    ],
    ['a key that is none', { natsCert: pem('cert'), natsKey: pem('cert') }, '--nats-key: '],
    ['a missing authority', { natsCa: missing }, `--nats-ca: ${missing} cannot be read: ENOENT`],
    ['an authority that is none', { natsCa: fileWith('hello') }, 'has no certificate in PEM'],
    [
      'a damaged authority',
      { natsCa: fileWith(readFileSync(pem('cert'), 'utf8').replace(/MII./, 'AAAA')) },
      'has a certificate that cannot be read',
    ],
    [
      'missing credentials',
      { natsCredentials: missing },
      `--nats-credentials: ${missing} cannot be read: ENOENT`,
    ],
    ['a folder for credentials', { natsCredentials: folder }, 'cannot be read: EISDIR'],
    ['credentials without a JWT', { natsCredentials: fileWith(seed) }, 'has no user JWT'],
    ['credentials without a seed', { natsCredentials: fileWith(credentialsFile(jwt, '')) }, 'has no seed'],
    [
      'credentials with another’s seed',
      { natsCredentials: fileWith(credentialsFile(jwt, seedOf(nkeys.createUser()))) },
      'do not belong together',
    ],
    [
      'credentials with a damaged seed',
      { natsCredentials: fileWith(credentialsFile(jwt, flipped(seed))) },
      'its checksum is wrong',
    ],
    [
      'credentials with a damaged JWT',
      { natsCredentials: fileWith(credentialsFile(jwt.replace(/[.].{6}/, '.AAAAAA'), seed)) },
      'has a JWT that is damaged',
    ],
    [
      'expired credentials',
      { natsCredentials: fileWith(operator.userOf('A', { exp: 1_000_000_000 })) },
      'expired on 2001-09-09T01:46:40.000Z',
    ],
    ['a missing nkey', { natsNkey: missing }, `--nats-nkey: ${missing} cannot be read: ENOENT`],
    ['an nkey without a seed', { natsNkey: fileWith(nkeys.createUser().getPublicKey()) }, 'has no seed'],
    [
      'the seed of an account',
      { natsNkey: fileWith(seedOf(nkeys.createAccount())) },
      'has a seed that is no user’s',
    ],
    [
      'a scheme that is none',
      { join: 'tsl://10.0.0.1:4222' },
      'give addresses such as nats://10.0.0.1:4222 or tls://',
    ],
    ['an address with a path', { join: 'nats://10.0.0.1:4222/main' }, 'give addresses such as'],
    ['a port that is none', { join: '10.0.0.1:port' }, 'give addresses such as'],
    [
      'a password in an address',
      { join: 'nats://u:p-1@10.0.0.1:4222' },
      '--join: an address holds no user and no password',
    ],
    [
      'a password in an address without a scheme',
      { join: 'u:p-1@10.0.0.1' },
      '--join: an address holds no user and no password',
    ],
    ['a fleet with dots in its name', { fleet: 'a.b' }, '--fleet: has letters, digits'],
    ['a node with dots in its name', { node: 'a.b' }, '--node: has letters, digits'],
    ['a token for no message system', { join: [], natsToken: 't-1' }, '--nats-token: needs --join'],
  ])('are refused with %s', async (_, given, words) => {
    const problem = await plan({ ...at, ...given }).then(
      () => 'nothing',
      (error: Error) => `${error.name}: ${error.message}`,
    );
    expect(problem).toContain(words);
    expect(problem).toMatch(/^ConfigError: --/);
    for (const secret of ['p-1', 't-1', seed, jwt]) expect(problem).not.toContain(secret);
  });

  it.skipIf(process.getuid?.() === 0)('are refused with a file that may not be read', async () => {
    const path = fileWith(credentials);
    chmodSync(path, 0);
    await expect(plan({ ...at, natsCredentials: path })).rejects.toThrow(`${path} cannot be read: EACCES`);
  });

  it('speak nothing but TLS where one address or a certificate asks for it', async () => {
    const tlsOf = async (given: Given) => (await plan({ ...at, ...given }))?.connection.tls !== undefined;
    expect(await tlsOf({})).toBe(false);
    expect(await tlsOf({ join: 'nats://a:4222,TLS://b:4222' })).toBe(true);
    expect(await tlsOf({ natsCa: pem('cert') })).toBe(true);
    expect(await tlsOf({ natsCert: pem('cert'), natsKey: pem('key') })).toBe(true);
  });

  it('are none where no fleet is joined', async () => {
    expect(await plan({})).toBeUndefined();
  });
});
