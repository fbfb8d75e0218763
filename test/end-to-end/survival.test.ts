// The running program under violence: engines killed, clients gone, the server told to end. Nobody who stays
// loses or gains a token.

import { beforeAll, describe, expect, it } from 'vitest';
import type { StepEvent } from '../../src/engine/step-report.ts';
import { hasAddon } from '../support/native.ts';
import {
  engineStats,
  isAlive,
  type ServerProcess,
  serverHome,
  waitUntil,
} from '../support/server-process.ts';
import {
  type Answer,
  answersAlone,
  type StreamBody,
  StreamClient,
  streamed,
} from '../support/stream-client.ts';

const heroes = ['miller', 'fox', 'queen', 'sailor', 'baker', 'giant', 'owl', 'smith'];

/** Half of them greedy, half sampled; long enough to be still under way when something happens. */
const bodies: readonly StreamBody[] = heroes.map((hero, n) => ({
  prompt: `Once upon a time there was a ${hero} who`,
  max_tokens: 800 + 20 * n,
  ignore_eos: true,
  ...(n % 2 === 0 ? { temperature: 0 } : { temperature: 0.9, seed: n }),
}));

const home = serverHome();
let key: string;
let server: ServerProcess;
let alone: Answer[];

beforeAll(async () => {
  key = home.createKey('tester', 'normal', '--admin');
  server = await home.start();
  alone = await answersAlone(server.url, bodies, { key });
  for (const { status, done, reason } of alone) expect({ status, done, reason }).toEqual(complete);
});

const complete = { status: 200, done: true, reason: 'length' };

/** Streams of all bodies, each with at least `pieces` pieces of its answer. */
async function underWay(pieces: number): Promise<StreamClient[]> {
  const clients = bodies.map((body) => new StreamClient(server.url, body, { key }));
  await waitUntil(() => clients.every((client) => client.pieces >= pieces));
  return clients;
}

const answersOf = (clients: readonly StreamClient[]) => Promise.all(clients.map(({ answer }) => answer));

describe.skipIf(!hasAddon)('eight streams (with the addon)', () => {
  it('end with the answers they would have had alone, though their engine is killed twice', async () => {
    const clients = await underWay(10);
    const first = server.enginePid();
    process.kill(first, 'SIGKILL');
    const seen = clients.map(({ pieces }) => pieces);
    // Clients may still have had some to read; what comes from the next engine is asked for, too.
    await waitUntil(() => ![undefined, first].includes(server.enginePid()));
    const second = server.enginePid();
    // On a busy machine a client may have read the end of its answer before.
    await waitUntil(() =>
      clients.every(({ pieces, ended }, n) => ended || pieces > (seen[n] as number) + 10),
    );
    process.kill(second, 'SIGKILL');
    expect(await answersOf(clients)).toEqual(alone);
    expect(server.enginePid()).not.toBe(second);
    expect((await engineStats(server, key)).blocks.used).toBe(0);
  });

  it('are not taken up again for clients that left while the engine died', async () => {
    const clients = await underWay(10);
    process.kill(server.enginePid(), 'SIGKILL');
    for (const client of clients.slice(0, 4)) client.leave();
    expect(await answersOf(clients.slice(4))).toEqual(alone.slice(4));
    const { running, requests } = await engineStats(server, key);
    // The next engine never hears of them, or only to cancel them.
    const taken = requests.submitted - requests.cancelled;
    expect({ running, taken }).toEqual({ running: [], taken: 4 });
  });

  it('free their blocks in the very step they leave the batch, when their clients are gone', async () => {
    const follower = new AbortController();
    const steps = followSteps(follower.signal);
    const before = await engineStats(server, key);
    const clients = await underWay(10);
    const leavers = clients.slice(0, 5);
    for (const client of leavers) client.leave();
    await waitUntil(() => steps.at(-1)?.stats.running.length === 3);
    const answers = await answersOf(clients.slice(5));
    expect(answers).toEqual(alone.slice(5));
    follower.abort();
    const counts = new Set(steps.map(({ stats }) => stats.running.length));
    // On a busy machine the last may come when the first has ended.
    expect(Math.max(...counts)).toBeGreaterThan(5);
    expect(counts).toContain(3);
    // No prompt fills a block, so nothing is shared: what is used is what the running ones hold.
    for (const { stats } of steps) {
      expect(stats.blocks.used).toBe(stats.running.reduce((sum, { blocks }) => sum + blocks, 0));
    }
    await Promise.all(leavers.map(({ answer }) => expect(answer).rejects.toThrow()));
    const { running, blocks, requests } = await engineStats(server, key);
    expect({ running: running.length, used: blocks.used }).toEqual({ running: 0, used: 0 });
    expect(requests.cancelled - before.requests.cancelled).toBe(leavers.length);
  });

  it('go on to their ends after SIGTERM while newcomers get 503, and the server exits with 0', async () => {
    const clients = await underWay(10);
    const enginePid = server.enginePid();
    server.signal('SIGTERM');
    await waitUntil(() => server.log().includes('closing'));
    const late = await streamed(server.url, bodies[0] as StreamBody, { key });
    expect(late).toMatchObject({ status: 503, error: { code: 'shutting_down' } });
    expect(await answersOf(clients)).toEqual(alone);
    expect(await server.exited).toBe(0);
    expect(isAlive(enginePid)).toBe(false);
    await expect(fetch(`${server.url}/health`)).rejects.toThrow();
  });
});

/** Collects the steps that /admin/events tells from now on. */
function followSteps(signal: AbortSignal): StepEvent[] {
  const steps: StepEvent[] = [];
  const follow = async () => {
    const headers = { authorization: `Bearer ${key}` };
    const response = await fetch(`${server.url}/admin/events`, { headers, signal });
    let rest = '';
    for await (const data of (response.body as ReadableStream).pipeThrough(new TextDecoderStream())) {
      const events = (rest + data).split('\n\n');
      rest = events.pop() as string;
      for (const event of events) {
        const step = /^event: step\ndata: (.*)$/.exec(event)?.[1];
        if (step !== undefined) steps.push(JSON.parse(step) as StepEvent);
      }
    }
  };
  follow().catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
  return steps;
}
