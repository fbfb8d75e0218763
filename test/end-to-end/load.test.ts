// The running program under load: 64 clients at once on too few blocks, a huge prompt in their midst. Every answer
// is the one its client would have had alone, and afterwards nothing is held any more.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hasAddon } from '../support/native.ts';
import {
  engineStats,
  residentBytes,
  ServerHome,
  type ServerProcess,
  waitUntil,
} from '../support/server-process.ts';
import {
  type Answer,
  answersAlone,
  type StreamBody,
  StreamClient,
  streamed,
} from '../support/stream-client.ts';

const CLIENTS = 64;
/** A fraction of what all clients need together, so that they wait for each other. */
const BLOCKS = 40;
const sentence = 'Then the miller walked through the old forest and told the fox what he had seen. ';

/** Prompts of 8 to 450 tokens, answers of 4 to 49; greedy and sampled; some share a long beginning. */
const bodies: readonly StreamBody[] = Array.from({ length: CLIENTS }, (_, n) => {
  const opening = n % 8 === 0 ? 'A tale that many tell. ' : `Tale ${n}. `;
  const sentences = n % 16 === 5 ? 24 : n % 4 === 0 ? 5 : n % 3;
  return {
    prompt: `${opening}${sentence.repeat(sentences)}Number ${n} said`,
    max_tokens: 4 + 5 * (n % 10),
    ignore_eos: true,
    ...(n % 2 === 0 ? { temperature: 0 } : { temperature: 1, seed: 1000 + n }),
  };
});

let calm: ServerHome;
let busy: ServerHome;
let key: string;
let alone: Answer[];
let server: ServerProcess;

beforeAll(async () => {
  calm = new ServerHome();
  busy = new ServerHome();
  key = busy.createKey('tester', 'normal', '--admin');
  // A program of its own, so that the busy one finds none of these prompts in its cache.
  const other = await calm.start();
  try {
    alone = await answersAlone(other.url, bodies);
  } finally {
    await other.stop();
  }
  server = await busy.start('--kv-blocks', String(BLOCKS));
});

afterAll(async () => {
  await server?.stop();
  calm.remove();
  busy.remove();
});

/** All clients at once, and what they got. */
async function storm(): Promise<Answer[]> {
  const clients = bodies.map((body) => new StreamClient(server.url, body, { key }));
  return Promise.all(clients.map(({ answer }) => answer));
}

describe.skipIf(!hasAddon)('64 concurrent streams of mixed lengths (with the addon)', () => {
  it('all give the answers obtained alone, also while prompts of 100 KB arrive and are refused', async () => {
    for (const { status, done, reason } of alone) {
      expect({ status, done, reason }).toEqual({ status: 200, done: true, reason: 'length' });
    }
    const answers = storm();
    await waitUntil(async () => (await engineStats(server, key)).running.length > 0);
    const huge = { prompt: sentence.repeat(1300).slice(0, 100_000), max_tokens: 5 };
    for (let n = 0; n < 3; n++) {
      const refused = await streamed(server.url, huge, { key });
      expect(refused).toMatchObject({ status: 400, error: { code: 'context_length_exceeded' } });
    }
    expect(await answers).toEqual(alone);
  });

  it('leave nothing behind: no sequence, no block, no request, no growing memory', async () => {
    const before = await memoryBytes();
    expect(await storm()).toEqual(alone);
    const { running, queues, deferred, blocks } = await engineStats(server, key);
    expect(running).toEqual([]);
    expect(queues.map(({ waiting }) => waiting)).toEqual([0, 0, 0]);
    expect({ deferred, used: blocks.used, unused: blocks.free + blocks.cached }).toEqual({
      deferred: 0,
      used: 0,
      unused: BLOCKS,
    });
    expect(await runningRequests()).toBe(0);
    // The first storm has warmed it up. A heap breathes by some tens of megabytes, no more.
    const after = await memoryBytes();
    for (const [process, bytes] of Object.entries(after)) {
      expect(bytes - before[process as keyof Memory], process).toBeLessThan(64e6);
    }
  });
});

interface Memory {
  readonly server: number;
  readonly engine: number;
}

function memoryBytes(): Memory {
  return { server: residentBytes(server.pid), engine: residentBytes(server.enginePid()) };
}

async function runningRequests(): Promise<number> {
  const headers = { authorization: `Bearer ${key}` };
  const response = await fetch(`${server.url}/admin/stats`, { headers });
  return ((await response.json()) as { runningRequests: number }).runningRequests;
}
