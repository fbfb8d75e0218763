// The running program at its edge: HTTPS, an address of its own for administrators, a reload, and what is left on
// the disk in the end.

import { once } from 'node:events';
import { copyFileSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { get } from 'node:https';
import { connect } from 'node:net';
import { join } from 'node:path';
import type { TLSSocket } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { ServerHome, type ServerProcess, serverHome, waitUntil } from '../support/server-process.ts';

const fixtures = fileURLToPath(new URL('../fixtures/tls/', import.meta.url));
const authorities = ['cert.pem', 'next-cert.pem'].map((name) => readFileSync(join(fixtures, name)));

interface Reply {
  readonly status: number;
  readonly body: string;
  /** Whose certificate it was. */
  readonly organisation: string | undefined;
}

function fetchSecurely(url: string, headers: Record<string, string> = {}): Promise<Reply> {
  return new Promise((resolve, reject) => {
    // A connection of its own, so that each one sees the certificate of its time.
    const request = get(url, { ca: authorities, agent: false, headers }, (response) => {
      const { subject } = (response.socket as TLSSocket).getPeerCertificate();
      const organisation = subject.O === undefined ? undefined : String(subject.O);
      let body = '';
      response.setEncoding('utf8').on('data', (piece: string) => {
        body += piece;
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body, organisation }));
    });
    request.on('error', reject);
  });
}

describe('a server with a certificate and a port for administrators', () => {
  const home = serverHome();
  let server: ServerProcess;
  let adminUrl: string;
  let headers: Record<string, string>;

  const useCertificate = (name: string) => {
    for (const part of ['cert.pem', 'key.pem'])
      copyFileSync(join(fixtures, name + part), join(home.folder, part));
  };

  beforeAll(async () => {
    useCertificate('');
    const key = home.createKey('boss', 'normal', '--admin');
    headers = { authorization: `Bearer ${key}` };
    const files = ['--tls-cert', 'cert.pem', '--tls-key', 'key.pem'];
    server = await home.start(...files, '--admin-port', '0', '--protect-metrics');
    adminUrl = /\/admin are on (\S+)/.exec(server.output())?.[1] ?? '';
  });

  it('speaks HTTPS on both, and nothing else', async () => {
    for (const url of [server.url, adminUrl]) {
      expect(url).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/);
      expect((await fetchSecurely(`${url}/health`)).status).toBe(200);
      expect((await fetchSecurely(`${url}/ready`)).status).toBe(200);
      await expect(fetch(`${url.replace('https', 'http')}/health`)).rejects.toThrow();
    }
  });

  it('has metrics and administration on the one, completions on the other', async () => {
    const status = async (url: string) => (await fetchSecurely(url, headers)).status;
    for (const path of ['/metrics', '/admin/stats', '/admin/keys']) {
      expect(await status(server.url + path)).toBe(404);
      expect(await status(adminUrl + path)).toBe(200);
    }
    expect(await status(`${server.url}/v1/models`)).toBe(200);
    expect(await status(`${adminUrl}/v1/models`)).toBe(404);
    const here = async (url: string) => JSON.parse((await fetchSecurely(`${url}/whoami`, headers)).body).here;
    expect(await here(server.url)).toEqual({ clients: true, admins: false });
    expect(await here(adminUrl)).toEqual({ clients: false, admins: true });
  });

  it('shows metrics to administrators alone where they are protected', async () => {
    expect((await fetchSecurely(`${adminUrl}/metrics`)).status).toBe(401);
    const { key } = JSON.parse(home.run('keys', 'create', '--name', 'user', '--json')) as { key: string };
    const asUser = { authorization: `Bearer ${key}` };
    expect((await fetchSecurely(`${adminUrl}/metrics`, asUser)).status).toBe(403);
  });

  it('takes up a new certificate on SIGHUP, and survives one that is none', async () => {
    expect((await fetchSecurely(`${server.url}/health`)).organisation).toBeUndefined();
    useCertificate('next-');
    server.signal('SIGHUP');
    await waitUntil(async () => (await fetchSecurely(`${server.url}/health`)).organisation === 'next');
    expect((await fetchSecurely(`${adminUrl}/health`)).organisation).toBe('next');
    writeFileSync(join(home.folder, 'key.pem'), 'no key at all');
    server.signal('SIGHUP');
    await waitUntil(() => server.log().includes('cannot read the certificate again'));
    expect(await fetchSecurely(`${server.url}/health`)).toMatchObject({ status: 200, organisation: 'next' });
  });

  it('ends on SIGTERM, though a client has begun a TLS handshake and says no more', async () => {
    const client = connect(Number(new URL(server.url).port), '127.0.0.1');
    const left = once(client, 'close');
    // The header of a ClientHello of 512 bytes, and its first byte.
    client.write(Buffer.from([0x16, 3, 1, 2, 0, 1]));
    // This one is served after the bytes above were read.
    await fetchSecurely(`${server.url}/health`);
    server.signal('SIGTERM');
    expect(await server.exited).toBe(0);
    await left;
    expect(server.log()).not.toContain('could not be closed');
  });

  it('leaves its database and the key of kept streams, which nobody else can read, and nothing beside them', () => {
    const left = readdirSync(home.folder).filter((name) => name.startsWith('test.db'));
    expect(left).toEqual(['test.db', 'test.db.key']);
    expect(statSync(join(home.folder, 'test.db.key')).mode & 0o777).toBe(0o600);
  });
});

describe('a server whose engine hangs', () => {
  it('is alive and not ready, until the engine answers again', async () => {
    const home = new ServerHome();
    const server = await home.start();
    const status = async (path: string) => (await fetch(server.url + path)).status;
    const engine = server.enginePid();
    try {
      expect(await status('/ready')).toBe(200);
      process.kill(engine, 'SIGSTOP');
      await waitUntil(async () => (await status('/ready')) === 503);
      const health = await fetch(`${server.url}/health`);
      expect(health.status).toBe(200);
      expect(await health.json()).toMatchObject({ status: 'degraded', engines: [{ state: 'silent' }] });
      process.kill(engine, 'SIGCONT');
      await waitUntil(async () => (await status('/ready')) === 200);
    } finally {
      process.kill(engine, 'SIGCONT');
      await server.stop();
      home.remove();
    }
  });
});

describe('a server whose keys were all revoked', () => {
  it('says so when it starts, and serves nobody', async () => {
    const home = new ServerHome();
    home.createKey('only', 'normal');
    expect(home.run('keys', 'revoke', 'only')).toMatch(/Revoked 'only'.*\n.*last key.*nobody is served/);
    const server = await home.start();
    try {
      await waitUntil(() => server.log().includes('every API key was revoked'));
      const refused = await fetch(`${server.url}/v1/models`);
      expect(refused.status).toBe(401);
      expect(await refused.text()).toContain('every API key was revoked');
    } finally {
      await server.stop();
      home.remove();
    }
  });
});

describe('addresses that make no sense', () => {
  it.each([
    [['--tls-cert', 'cert.pem'], /--tls-cert: needs --tls-key/],
    [['--tls-key', 'key.pem'], /--tls-key: needs --tls-cert/],
    [['--tls-cert', 'no.pem', '--tls-key', 'no.pem'], /--tls-cert: no.pem cannot be read/],
    [['--admin-host', '127.0.0.1'], /--admin-host: needs --admin-port/],
  ])('%j end the start with what to do', async (flags, message) => {
    const home = new ServerHome();
    try {
      await expect(home.start(...flags)).rejects.toThrow(message);
    } finally {
      home.remove();
    }
  });
});
