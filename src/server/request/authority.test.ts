// What an admin key has opened ends with its right, whatever it is.

import { expect, it, vi } from 'vitest';
import { start, startWithKeys } from '../../../test/support/keyed-server.ts';
import type { KeyStatus } from '../../store/key-ring.ts';
import type { Bench } from '../admin/bench.ts';

const order = { streams: 1, requests: 1, promptTokens: 1, answerTokens: 1 };
/** Runs until it is ended. */
const endlessBench: Bench = (_order, { signal }) =>
  new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason));
  });

async function startWithAdmins() {
  const keys = { boss: { admin: true }, second: { admin: true } };
  const { server, secrets, call } = await startWithKeys(keys, { bench: endlessBench });
  const url = await server.listen();
  const headers = { authorization: `Bearer ${secrets.second}` };
  const revoke = () => call(secrets.boss, '/admin/keys/second', undefined, 'DELETE');
  return { url, headers, revoke };
}

it.each(['/admin/events', '/live'])('%s ends when its key is revoked', async (path) => {
  const { url, headers, revoke } = await startWithAdmins();
  const response = await fetch(url + path, { headers });
  expect(response.status).toBe(200);
  const whole = response.text();
  expect((await revoke()).statusCode).toBe(200);
  expect(await whole).toContain('event: ');
});

it('a job ends when its key is revoked, and says why', async () => {
  const { url, headers, revoke } = await startWithAdmins();
  const body = JSON.stringify(order);
  const json = { ...headers, 'content-type': 'application/json' };
  const response = await fetch(`${url}/admin/bench`, { method: 'POST', headers: json, body });
  expect(response.status).toBe(200);
  const whole = response.text();
  await revoke();
  expect(await whole).toContain('"code":"invalid_api_key"');
});

it('what this machine opened before there were keys ends with the first one', async () => {
  let standing: KeyStatus = 'none';
  const find = async () => undefined;
  const keys = { standing: async () => standing, findByKey: find, findById: find };
  const { listen } = await start({ keys });
  const response = await fetch(`${await listen()}/admin/events`);
  expect(response.status).toBe(200);
  const whole = response.text();
  standing = 'live';
  expect(await whole).toContain('event: models');
});

it('a feed stays while nobody can say whether its key is known', async () => {
  const admin = { id: 'key_1', name: 'boss', prefix: 'cl-', tier: 'normal', admin: true } as const;
  const record = { ...admin, limits: {}, createdMs: 0 };
  const findByKey = vi.fn().mockResolvedValue(record);
  const keys = { standing: async () => 'live' as const, findByKey, findById: async () => record };
  const { listen } = await start({ keys });
  const headers = { authorization: 'Bearer cl-1' };
  const response = await fetch(`${await listen()}/admin/events`, { headers });
  let over = false;
  const whole = response.text().finally(() => {
    over = true;
  });
  const asked = async (answer: unknown, times: number) => {
    findByKey.mockClear().mockResolvedValue(answer);
    await vi.waitUntil(() => findByKey.mock.calls.length >= times, { timeout: 60_000 });
  };
  await asked('unsure', 2);
  expect(over).toBe(false);
  await asked({ ...record, admin: false }, 1);
  await whole;
});
