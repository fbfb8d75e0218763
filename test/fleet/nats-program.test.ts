// The program as a user starts it, over TLS and with credentials of an account: a worker and a gateway answer together, and
// the worker can be watched at a port of its own.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Authority, certificatesRefusal } from '../support/certificates.ts';
import { NatsOperator } from '../support/nats-accounts.ts';
import { type NatsServer, natsRefusal, startNats } from '../support/nats-server.ts';
import { ServerHome, type ServerProcess, waitUntil } from '../support/server-process.ts';

const refusal = natsRefusal() ?? certificatesRefusal();

describe.skipIf(refusal !== undefined)(
  `worker and gateway over TLS${refusal === undefined ? '' : ` (${refusal})`}`,
  () => {
    const homes = { worker: new ServerHome(), gateway: new ServerHome() };
    let nats: NatsServer;
    let flags: string[];
    let secrets: string[];
    let worker: ServerProcess;
    let gateway: ServerProcess;
    let adminUrl: string;

    beforeAll(async () => {
      const folder = join(homes.worker.folder, 'nats');
      mkdirSync(folder);
      const authority = new Authority(folder, 'authority');
      const { cert, key } = authority.sign('server', 'IP:127.0.0.1');
      const operator = new NatsOperator('FLEET');
      nats = await startNats(
        folder,
        `jetstream { store_dir: "${folder}" }`,
        `tls { cert_file: "${cert}", key_file: "${key}" }`,
        ...operator.settings,
      );
      const user = operator.userOf('FLEET');
      secrets = user.split('\n').filter((line) => /^[\w.-]{50,}$/.test(line));
      const credentials = join(folder, 'fleet.creds');
      writeFileSync(credentials, user);
      const address = `tls://127.0.0.1:${nats.port}`;
      flags = ['--join', address, '--nats-ca', authority.cert, '--nats-credentials', credentials];
      [worker, gateway] = await Promise.all([
        homes.worker.start(...flags, '--worker', '--node', 'w', '--threads', '1', '--admin-port', '0'),
        homes.gateway.start(...flags, '--gateway', '--node', 'g'),
      ]);
      adminUrl = /\/admin are on (\S+)/.exec(worker.output())?.[1] ?? '';
      await waitUntil(async () => (await fetch(`${gateway.url}/ready`)).ok);
    });

    afterAll(async () => {
      await Promise.all([worker?.stop(), gateway?.stop()]);
      await nats?.stop();
      for (const home of Object.values(homes)) home.remove();
    });

    it('answer a chat together', async () => {
      const response = await fetch(`${gateway.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ messages: [{ role: 'user', content: 'Tell me a story.' }], max_tokens: 8 }),
      });
      expect(response.status).toBe(200);
      expect(await response.json()).toMatchObject({ usage: { completion_tokens: 8 } });
    });

    it('let the worker be watched at its own port, and asked for nothing', async () => {
      const get = (path: string) => fetch(adminUrl + path);
      expect(worker.url).toBe('');
      expect(await (await get('/health')).json()).toMatchObject({ status: 'ok' });
      expect((await get('/ready')).status).toBe(200);
      const page = await get('/');
      expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
      expect((await get('/admin/stats')).status).toBe(200);
      expect((await get('/v1/models')).status).toBe(404);
      const bench = { streams: 1, requests: 1, promptTokens: 8, answerTokens: 4 };
      const headers = { 'content-type': 'application/json' };
      const asked = { method: 'POST', headers, body: JSON.stringify(bench) };
      expect((await fetch(`${adminUrl}/admin/bench`, asked)).status).toBe(501);
    });

    it('count the worker’s steps in its metrics, though it was asked nothing over HTTP', async () => {
      const steps = async () => {
        const text = await (await fetch(`${adminUrl}/metrics`)).text();
        return Number(/^chairlift_step_seconds_count\{\S+\} (\d+)$/m.exec(text)?.[1] ?? 0);
      };
      const before = await steps();
      const response = await fetch(`${gateway.url}/v1/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ prompt: 'Once upon a time', max_tokens: 4 }),
      });
      expect(response.status).toBe(200);
      await waitUntil(async () => (await steps()) > before);
    });

    it('tell nobody their credentials', () => {
      expect(secrets).toHaveLength(2);
      for (const { output, log } of [worker, gateway]) {
        for (const secret of secrets) expect(output() + log()).not.toContain(secret);
      }
    });

    it('end at once where their settings cannot be right, before a model is loaded', async () => {
      const start = homes.worker.start(...flags, '--worker', '--nats-token', 'open-sesame-1');
      await expect(start).rejects.toThrow(/leave one of them out/);
      await expect(start).rejects.not.toThrow(/open-sesame-1|model loading/);
      const elsewhere = homes.worker.start('--join', `nats://127.0.0.1:${nats.port}`, '--worker');
      await expect(elsewhere).rejects.toThrow(/cannot be joined/);
      await expect(elsewhere).rejects.not.toThrow(/model loading/);
    });
  },
);
