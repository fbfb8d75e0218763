import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  type Behaviour,
  type CompletionStandIn,
  startStandIn,
} from '../../../test/support/completion-stand-in.ts';
import { measureRequest, type StreamedAnswer } from './request-record.ts';
import { EventReader, retryAfter, streamRequest } from './stream-request.ts';
import { baseUrlOf, type Endpoint, makeAgent, type Target } from './target.ts';

let server: CompletionStandIn | undefined;
let target: Target | undefined;
afterEach(async () => {
  target?.agent.destroy();
  target = undefined;
  await server?.close();
  server = undefined;
});

async function ask(
  behaviour: Behaviour,
  over: { endpoint?: Endpoint; timeoutMs?: number; signal?: AbortSignal } = {},
): Promise<StreamedAnswer> {
  server = await startStandIn(() => behaviour);
  return askAgain(server, over);
}

function askAgain(
  { url }: CompletionStandIn,
  { endpoint = 'chat' as Endpoint, timeoutMs = 20_000, signal = new AbortController().signal } = {},
): Promise<StreamedAnswer> {
  const baseUrl = `${url}/v1`;
  target ??= { baseUrl, model: 'm', endpoint, agent: makeAgent(baseUrl) };
  const prompt = endpoint === 'chat' ? { messages: [{ role: 'user', content: 'a b' }] } : { prompt: 'a b' };
  const body = { model: 'm', ...prompt, max_tokens: 5, stream: true };
  const to = { ...target, baseUrl, endpoint };
  return streamRequest(to, { body, secret: 'sk', timeoutMs, signal, nowMs: () => performance.now() });
}

describe('a streamed request', () => {
  it.each(['chat', 'completions'] as const)('of %s notes each chunk when it comes', async (endpoint) => {
    const answer = await ask({ kind: 'stream', firstMs: 60, gapMs: 15 }, { endpoint });
    expect(answer.outcome).toEqual({ kind: 'complete' });
    expect(answer.finishReason).toBe('length');
    expect(answer.usage).toEqual({ promptTokens: 9, cachedTokens: 4, outputTokens: 5 });
    const { ttftMs, gapsMs, e2elMs, tpotMs } = measureRequest(answer);
    // The role, which comes at once, is no output. Timers are never much too early, but may be late.
    expect(ttftMs).toBeGreaterThan(58);
    expect(gapsMs).toHaveLength(4);
    for (const gap of gapsMs) expect(gap).toBeGreaterThan(0);
    expect(gapsMs.reduce((sum, gap) => sum + gap, 0)).toBeGreaterThan(4 * 14);
    expect(e2elMs).toBeGreaterThan(58 + 4 * 14);
    expect(tpotMs).toBeCloseTo((e2elMs - (ttftMs as number)) / 4, 6);
    expect(server?.asked[0]).toMatchObject({ authorization: 'Bearer sk' });
  });

  it('without usage has none', async () => {
    const answer = await ask({ kind: 'stream', usage: false });
    expect(answer).toMatchObject({ outcome: { kind: 'complete' }, usage: undefined });
    expect(answer.chunkMs).toHaveLength(5);
  });

  it('uses its connection again', async () => {
    await ask({ kind: 'stream' });
    for (let n = 0; n < 5; n++) await askAgain(server as CompletionStandIn);
    expect(server?.connections()).toBe(1);
  });

  it.each([
    [
      { kind: 'refuse', status: 429, headers: { 'retry-after': '7' } },
      { failure: 'rate-limited', status: 429, retryAfterSeconds: 7 },
    ],
    [
      { kind: 'refuse', status: 503 },
      { failure: 'http', status: 503, message: 'refused with 503' },
    ],
    [
      { kind: 'stream', endAfter: { chunks: 2, by: 'close' } },
      { failure: 'connection', status: 200 },
    ],
    [
      { kind: 'stream', endAfter: { chunks: 2, by: 'end' } },
      { failure: 'stream', status: 200 },
    ],
    [
      { kind: 'stream', endAfter: { chunks: 2, by: 'error-event' } },
      { failure: 'stream', message: 'out of luck' },
    ],
  ] as const)('that meets %j fails in its own way', async (behaviour, outcome) => {
    expect((await ask(behaviour)).outcome).toMatchObject({ kind: 'failed', ...outcome });
  });

  it('keeps the chunks that came before it broke', async () => {
    const answer = await ask({ kind: 'stream', gapMs: 5, endAfter: { chunks: 2, by: 'close' } });
    expect(answer.chunkMs).toHaveLength(2);
  });

  it('that gets no answer ends with its timeout', async () => {
    const answer = await ask({ kind: 'hang' }, { timeoutMs: 30 });
    expect(answer.outcome).toMatchObject({ kind: 'failed', failure: 'timeout' });
  });

  it('to nobody fails to connect', async () => {
    await ask({ kind: 'stream' });
    const gone = server as CompletionStandIn;
    await gone.close();
    server = undefined;
    expect((await askAgain(gone)).outcome).toMatchObject({
      kind: 'failed',
      failure: 'connection',
      message: 'ECONNREFUSED',
    });
  });

  it('is cut off by the end of the run', async () => {
    const ending = new AbortController();
    const answer = ask({ kind: 'hang' }, { signal: ending.signal });
    await vi.waitUntil(() => server?.asked.length === 1, { timeout: 60_000 });
    ending.abort();
    expect((await answer).outcome).toEqual({ kind: 'cut-off' });
    const late = await askAgain(server as CompletionStandIn, { signal: ending.signal });
    expect(late.outcome).toEqual({ kind: 'cut-off' });
    expect(server?.asked).toHaveLength(1);
  });
});

describe('an address', () => {
  it.each([
    ['http://h:8000', 'http://h:8000/v1'],
    ['http://h:8000/', 'http://h:8000/v1'],
    ['http://h:8000/v1/', 'http://h:8000/v1'],
    ['https://h/api/v2', 'https://h/api/v2'],
    ['https://h/proxy', 'https://h/proxy/v1'],
    ['h:8000', undefined],
    ['ftp://h', undefined],
    ['nonsense', undefined],
  ])('%s is taken as %s', (text, url) => {
    expect(baseUrlOf(text)).toBe(url);
  });
});

describe('Retry-After', () => {
  it('is seconds or a date', () => {
    const nowMs = Date.parse('2026-01-01T00:00:00Z');
    expect(retryAfter('12', nowMs)).toBe(12);
    expect(retryAfter('Thu, 01 Jan 2026 00:00:30 GMT', nowMs)).toBe(30);
    expect(retryAfter('soon', nowMs)).toBeUndefined();
    expect(retryAfter(undefined, nowMs)).toBeUndefined();
  });
});

describe('server-sent events', () => {
  const stream =
    'data: {"a":"ü€😀"}\n\n: a comment\n\nevent: x\r\ndata:one\r\ndata: two\r\n\r\ndata: [DONE]\n\n';
  const events = ['{"a":"ü€😀"}', 'one\ntwo', '[DONE]'];

  it('are the same however their bytes are cut', () => {
    const bytes = Buffer.from(stream);
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: bytes.length - 1 })), (places) => {
        const cuts = [0, ...new Set(places), bytes.length].sort((left, right) => left - right);
        const reader = new EventReader();
        const read = cuts.slice(1).flatMap((cut, n) => reader.push(bytes.subarray(cuts[n], cut)));
        expect([...read, ...reader.end()]).toEqual(events);
      }),
    );
  });

  it('are complete as soon as their empty line is there', () => {
    const reader = new EventReader();
    expect(reader.push(Buffer.from('data: 1\n\ndata: 2\n'))).toEqual(['1']);
    expect(reader.push(Buffer.from('\n'))).toEqual(['2']);
  });

  it('include a last one that lacks its empty line', () => {
    const reader = new EventReader();
    expect(reader.push(Buffer.from('data: [DONE]'))).toEqual([]);
    expect(reader.end()).toEqual(['[DONE]']);
  });
});
