// The running program among clients who mean it no good: grammars that are wrong, endless or meant to take for ever, beside
// a client who only wants a story. Each is answered, and the story goes on.

import { existsSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { beforeAll, describe, expect, it } from 'vitest';
import { type HostileRequest, hostileRequest } from '../support/hostile-requests.ts';
import { hasAddon } from '../support/native.ts';
import { seededRandom } from '../support/random-schemas.ts';
import { type ServerProcess, serverHome, waitUntil } from '../support/server-process.ts';
import { StreamClient } from '../support/stream-client.ts';

/** `CHAIRLIFT_HOSTILE_REQUESTS=1000` takes some minutes. */
const REQUESTS = Number(process.env.CHAIRLIFT_HOSTILE_REQUESTS ?? 18);
const AT_ONCE = 4;
/** Compiling may take five seconds of the processor, and each waits for three others. */
const PATIENCE_MS = 180_000;
/** Far more than a story ever waits for its next piece, on a machine of any speed. */
const LONGEST_SILENCE_MS = 15_000;
const GROWTH_BYTES = 96 * 2 ** 20;

const probe = fileURLToPath(new URL('../support/process-probe.js', import.meta.url));

interface Health {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
  readonly heapBytes: number;
}

interface Reply {
  readonly request: HostileRequest;
  readonly status: number;
  readonly text: string;
  readonly ms: number;
}

const home = serverHome();
let key: string;
let server: ServerProcess;

beforeAll(async () => {
  key = home.createKey('tester', 'normal', '--admin');
  home.environment = { NODE_OPTIONS: `--import=${probe}` };
  server = await home.start();
});

async function health(): Promise<Health> {
  const before = server.log().split('probe ').length;
  server.signal('SIGUSR2');
  await waitUntil(() =>
    /probe \{.*\}\n/.test(
      server
        .log()
        .split('probe ')
        .slice(before)
        .map((line) => `probe ${line}`)
        .join(''),
    ),
  );
  return JSON.parse((server.log().split('probe ').at(-1) as string).split('\n')[0] as string) as Health;
}

function threads(): number | undefined {
  const folder = `/proc/${server.pid}/task`;
  return existsSync(folder) ? readdirSync(folder).length : undefined;
}

async function ask(request: HostileRequest): Promise<Reply> {
  const startMs = performance.now();
  const response = await fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: request.body,
    signal: AbortSignal.timeout(PATIENCE_MS),
  });
  const text = await response.text();
  return { request, status: response.status, text, ms: performance.now() - startMs };
}

/** In turn, a few at a time. */
async function askAll(requests: readonly HostileRequest[]): Promise<Reply[]> {
  const replies: Reply[] = [];
  const open = [...requests];
  const work = async () => {
    for (let next = open.shift(); next !== undefined; next = open.shift()) replies.push(await ask(next));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return replies;
}

/** Stories one after another, until told to stop; the longest time without a piece. */
class Listener {
  longestSilenceMs = 0;
  pieces = 0;
  #stopped = false;
  readonly #done = this.#listen();

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#done;
  }

  async #listen(): Promise<void> {
    const body = { prompt: 'Once upon a time', max_tokens: 300, ignore_eos: true, temperature: 0 };
    while (!this.#stopped) {
      const client = new StreamClient(server.url, body, { key });
      let [before, lastMs] = [0, performance.now()];
      const timer = setInterval(() => {
        if (client.pieces > before) lastMs = performance.now();
        this.pieces += client.pieces - before;
        before = client.pieces;
        this.longestSilenceMs = Math.max(this.longestSilenceMs, performance.now() - lastMs);
      }, 20);
      const answer = await client.answer;
      clearInterval(timer);
      expect({ status: answer.status, done: answer.done }).toEqual({ status: 200, done: true });
    }
  }
}

function checkReply({ request: { kind, body, schema }, status, text }: Reply): void {
  const where = `${kind}: ${body.slice(0, 600)}\n${status} ${text.slice(0, 400)}`;
  expect([200, 400], where).toContain(status);
  const answer = JSON.parse(text);
  if (status === 400) {
    expect(typeof answer.error.message, where).toBe('string');
    return;
  }
  const [{ finish_reason: reason, message }] = answer.choices;
  if (schema === undefined || reason !== 'stop' || body.length > 5000) return;
  const ajv = new Ajv2020({ strict: false, unicodeRegExp: true, ownProperties: true, validateSchema: false });
  addFormats.default(ajv);
  expect(ajv.compile(schema as object)(JSON.parse(message.content)), where).toBe(true);
}

describe.skipIf(!hasAddon)('a server whose clients ask for hostile grammars', () => {
  it(`answers each of ${REQUESTS}, while a story goes on beside them`, { timeout: 1_800_000 }, async () => {
    const random = seededRandom(20_240_229);
    const requests = Array.from({ length: REQUESTS }, () => hostileRequest(random));
    // Threads and caches are there before anything is measured.
    await askAll(requests.slice(0, 6));
    const enginePid = server.enginePid();
    const [before, threadsBefore] = [await health(), threads()];
    const listener = new Listener();
    const replies = await askAll(requests);
    const during = await health();
    await listener.stop();
    const [after, threadsAfter] = [await health(), threads()];
    const statuses = replies.map(({ status }) => status);
    console.log(
      JSON.stringify({
        answered: statuses.filter((status) => status === 200).length,
        refused: statuses.filter((status) => status === 400).length,
        slowestMs: Math.round(Math.max(...replies.map(({ ms }) => ms))),
        pieces: listener.pieces,
        longestSilenceMs: Math.round(listener.longestSilenceMs),
        eventLoop: { idle: before, during },
        heapGrowthBytes: after.heapBytes - before.heapBytes,
        threads: [threadsBefore, threadsAfter],
      }),
    );
    for (const reply of replies) checkReply(reply);
    expect(server.enginePid()).toBe(enginePid);
    expect(listener.pieces).toBeGreaterThan(0);
    expect(listener.longestSilenceMs).toBeLessThan(LONGEST_SILENCE_MS);
    expect(during.p50).toBeLessThan(100);
    expect(after.heapBytes - before.heapBytes).toBeLessThan(GROWTH_BYTES);
    if (threadsBefore !== undefined && threadsAfter !== undefined)
      expect(threadsAfter).toBeLessThanOrEqual(threadsBefore + 8);
  });

  it.each([
    ['', { guided_choice: [''], min_tokens: 3 }],
    ['', { guided_choice: [''], ignore_eos: true }],
    ['x', { guided_choice: ['x'], min_tokens: 3, ignore_eos: true }],
    ['[ab]{0,3}', { guided_regex: '[ab]{0,3}', ignore_eos: true }],
    ['[ab]{2}', { guided_regex: '[ab]{2}', logit_bias: { 1: -100, 2: -100 }, stop: ['c'] }],
  ])('ends an answer where its grammar does (%s), whatever else is asked', async (pattern, fields) => {
    const messages = [{ role: 'user', content: 'Tell me a story.' }];
    const body = JSON.stringify({ messages, max_tokens: 12, n: 2, logprobs: true, seed: 7, ...fields });
    const { status, text } = await ask({ kind: 'short', body });
    expect(status, text).toBe(200);
    const { choices } = JSON.parse(text) as {
      choices: { finish_reason: string; message: { content: string | null } }[];
    };
    for (const { finish_reason: reason, message } of choices) {
      expect(reason).toBe('stop');
      expect(message.content ?? '').toMatch(new RegExp(`^(?:${pattern})$`));
    }
  });
});
