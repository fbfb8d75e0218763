// What is kept of a key's prompts once the key is revoked: nothing, neither on disk nor in the memory of a server that writes it down
// when it ends.

import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { hasAddon } from '../support/native.ts';
import { type ServerProcess, serverHome, waitUntil } from '../support/server-process.ts';

const program = fileURLToPath(new URL('../../bin/chairlift.js', import.meta.url));
const prompt = 'The bell of the village rang once more over the quiet hills. '.repeat(12);

const home = serverHome();
const cache = join(home.folder, 'cache');

async function ask({ url }: ServerProcess, key: string): Promise<void> {
  const response = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ prompt, max_tokens: 8, temperature: 0 }),
  });
  expect(response.status).toBe(200);
  await response.text();
}

function cacheCommand(...args: string[]): string {
  return execFileSync(process.execPath, [program, 'cache', ...args, '--cache-disk', cache], {
    env: { PATH: process.env.PATH, HOME: home.folder },
    encoding: 'utf8',
  });
}

const blocks = () =>
  (JSON.parse(cacheCommand('ls', '--json')) as { blocks: number }[]).reduce(
    (sum, one) => sum + one.blocks,
    0,
  );

const idOf = (name: string) =>
  (JSON.parse(home.run('keys', 'list', '--all', '--json')) as { id: string; name: string }[]).find(
    (key) => key.name === name,
  )?.id as string;

/** `revoke`: revokes the key of this name. */
async function revokedWhileItRuns(name: string, revoke: (server: ServerProcess) => unknown): Promise<void> {
  const other = `not ${name}`;
  const [ann, bob] = [name, other].map((one) => home.createKey(one, 'normal'));
  const server = await home.start('--cache-disk', cache);
  await ask(server, ann as string);
  await ask(server, bob as string);
  await waitUntil(() => blocks() >= 10);
  const before = blocks();
  await revoke(server);
  // Nobody asks the server for anything meanwhile.
  await waitUntil(() => blocks() < before);
  server.signal('SIGTERM');
  expect(await server.exited).toBe(0);
  const left = blocks();
  expect(left).toBeGreaterThan(0);
  // All of them are the other key's.
  expect(cacheCommand('rm', '--key', idOf(name))).toMatch(/^removed 0 blocks/);
  expect(cacheCommand('rm', '--key', idOf(other))).toMatch(new RegExp(`^removed ${left} blocks`));
  home.run('keys', 'revoke', other);
}

describe.skipIf(!hasAddon)('KV blocks of a key (with the addon)', () => {
  it('are gone once the command has revoked it, which knows of no folder', async () => {
    await revokedWhileItRuns('ann', () => home.run('keys', 'revoke', 'ann'));
  });

  it('are gone once the API has revoked it', async () => {
    const admin = home.createKey('admin', 'high', '--admin');
    await revokedWhileItRuns('bea', async ({ url }) => {
      const response = await fetch(`${url}/admin/keys/bea`, {
        method: 'DELETE',
        headers: { authorization: `Bearer ${admin}` },
      });
      expect(response.status).toBe(200);
    });
  });

  it('are not written when the server ends at once after the command', async () => {
    const key = home.createKey('eve', 'normal');
    const server = await home.start('--cache-disk', cache);
    await ask(server, key);
    await sleep(100);
    home.run('keys', 'revoke', 'eve');
    server.signal('SIGTERM');
    expect(await server.exited).toBe(0);
    expect(cacheCommand('rm', '--key', idOf('eve'))).toMatch(/^removed 0 blocks/);
  });
});
