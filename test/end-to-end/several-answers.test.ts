// Several answers to one prompt, and a client that does not stay for them: nothing of it may keep the server.

import { request as httpRequest } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { hasAddon } from '../support/native.ts';
import {
  engineStats,
  isAlive,
  ServerHome,
  type ServerProcess,
  waitUntil,
} from '../support/server-process.ts';

/** Far below the server's own limit for ending, which is what a forgotten request would take. */
const PROMPT_END_MS = 15_000;

const home = new ServerHome();
let server: ServerProcess | undefined;
afterEach(async () => {
  await server?.stop();
  home.remove();
});

describe.skipIf(!hasAddon)('a client that leaves while the prompt of its four answers computes', () => {
  it('is forgotten with all four, and SIGTERM then ends the server at once', async () => {
    const key = home.createKey('tester', 'normal', '--admin');
    // Small steps make the prompt last: the client is gone long before its end.
    const running = await home.start('--max-step-tokens', '16', '--threads', '1');
    server = running;
    const client = httpRequest(`${running.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
      agent: false,
    });
    client.on('error', () => {});
    const prompt = 'Milo the fox went to the lake and swam. '.repeat(280);
    client.end(JSON.stringify({ prompt, n: 4, max_tokens: 500, ignore_eos: true }));
    await waitUntil(async () => (await engineStats(running, key)).steps > 2);
    client.destroy();
    await waitUntil(async () => (await engineStats(running, key)).requests.cancelled === 4);
    const { running: sequences, queues, blocks, generatedTokens } = await engineStats(running, key);
    expect({ sequences, used: blocks.used, generatedTokens }).toEqual({
      sequences: [],
      used: 0,
      generatedTokens: 0,
    });
    expect(queues.every(({ waiting }) => waiting === 0)).toBe(true);
    const enginePid = running.enginePid();
    const toldMs = performance.now();
    running.signal('SIGTERM');
    expect(await running.exited).toBe(0);
    expect(performance.now() - toldMs).toBeLessThan(PROMPT_END_MS);
    expect(isAlive(enginePid)).toBe(false);
  });
});
