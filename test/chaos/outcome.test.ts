import { describe, expect, it } from 'vitest';
import { difference } from './answer.ts';
import type { Exchange } from './exchange.ts';
import { type Circumstances, complaintAbout } from './judgement.ts';
import type { Outage } from './outages.ts';
import { outcomeOf } from './outcome.ts';

function came(text: string, over: Partial<Exchange> = {}): Exchange {
  return { end: 'complete', status: 200, headers: {}, text, startedMs: 0, endedMs: 1, ...over };
}

const chunk = (index: number, content: string, finish_reason: string | null = null) =>
  `data: ${JSON.stringify({ choices: [{ index, delta: { content }, logprobs: null, finish_reason }] })}\n\n`;
const usage = { prompt_tokens: 3, completion_tokens: 4, prompt_tokens_details: { cached_tokens: 2 } };
const usageChunk = `data: ${JSON.stringify({ choices: [], usage })}\n\n`;
const done = 'data: [DONE]\n\n';
const errorBody = { error: { message: 'no', type: 'rate_limit_error', param: null, code: 'queue_full' } };

const whole = JSON.stringify({
  choices: [
    { index: 0, message: { content: 'Hello there' }, finish_reason: 'stop' },
    { index: 1, message: { content: 'Hi' }, finish_reason: 'length' },
  ],
  usage,
});
const streamed =
  chunk(0, 'Hello') +
  chunk(1, 'Hi') +
  chunk(0, ' there') +
  chunk(1, '', 'length') +
  chunk(0, '', 'stop') +
  usageChunk;

describe('what became of a request', () => {
  it('is the same answer as a stream and as a whole', () => {
    const answer = outcomeOf(came(whole), 'completion');
    expect(answer.kind).toBe('answer');
    expect(outcomeOf(came(streamed + done), 'stream')).toEqual(answer);
  });

  it('is an error with its code where the status says so', () => {
    const refused = came(JSON.stringify(errorBody), { status: 429, headers: { 'retry-after': '7' } });
    expect(outcomeOf(refused, 'completion')).toMatchObject({
      kind: 'error',
      status: 429,
      code: 'queue_full',
      retryAfter: 7,
    });
  });

  it('is an error where a stream ends with one', () => {
    const text = `${chunk(0, 'Hel')}data: ${JSON.stringify(errorBody)}\n\n`;
    expect(outcomeOf(came(text), 'stream')).toMatchObject({ kind: 'error', status: 429, inStream: true });
  });

  it.each([
    ['a stream that just ends', came(streamed), 'stream'],
    ['a stream whose choice never ends', came(chunk(0, 'Hel') + done), 'stream'],
    ['a stream with a choice missing', came(chunk(1, 'Hel', 'stop') + done), 'stream'],
    ['words after the last', came(streamed + done + chunk(0, '!')), 'stream'],
    ['silence', came('', { end: 'late', status: undefined }), 'completion'],
    ['a body cut off', came(whole.slice(0, -5)), 'completion'],
    ['an error without a body', came('', { status: 500 }), 'completion'],
    ['an error in another shape', came('{"statusCode":500}', { status: 500 }), 'completion'],
  ] as const)('is nothing in the case of %s', (_, exchange, form) => {
    expect(outcomeOf(exchange, form).kind).toBe('nothing');
  });

  it('is a broken connection, before or after something came', () => {
    const cut = (status: number | undefined) =>
      outcomeOf(came('', { end: 'broken', problem: 'ECONNRESET', status }), 'stream');
    expect(cut(200)).toMatchObject({ kind: 'broken', begun: true });
    expect(cut(undefined)).toMatchObject({ kind: 'broken', begun: false });
  });

  it('is the leaving of a client, whatever it had by then', () => {
    expect(outcomeOf(came(streamed, { end: 'left' }), 'stream')).toEqual({ kind: 'left' });
  });
});

describe('a judgement', () => {
  const answer = outcomeOf(came(whole), 'completion');
  const reference = answer.kind === 'answer' ? answer.answer : undefined;
  const usual: Circumstances = {
    reference,
    limited: false,
    revoked: false,
    deadline: false,
    deaths: 0,
    outage: undefined,
    startedMs: 100_000,
    endedMs: 101_000,
    budgeted: false,
    slow: false,
    calm: false,
  };
  /** Told to end while the request was under way, with half a minute for those that are served. */
  const orderly: Outage = { kind: 'orderly', toldMs: 100_500, limitMs: 30_000 };
  const longBefore: Outage = { ...orderly, toldMs: 110_000 };
  const killed: Outage = { ...longBefore, kind: 'cut' };
  const broken = (begun: boolean) => ({ kind: 'broken', why: 'ECONNRESET', begun }) as const;
  const error = (status: number, code: string, retryAfter?: number) =>
    ({ kind: 'error', status, code, message: '', retryAfter, inStream: false }) as const;

  it('lets the right answer pass, and no other', () => {
    expect(complaintAbout(answer, usual)).toBeUndefined();
    const wrong = outcomeOf(came(whole.replace('there', 'where')), 'completion');
    expect(complaintAbout(wrong, usual)?.kind).toBe('wrong answer');
    const counted = outcomeOf(
      came(whole.replace('"completion_tokens":4', '"completion_tokens":5')),
      'completion',
    );
    expect(complaintAbout(counted, usual)?.kind).toBe('wrong answer');
    const cached = outcomeOf(came(whole.replace('"cached_tokens":2', '"cached_tokens":0')), 'completion');
    expect(complaintAbout(cached, usual)).toBeUndefined();
  });

  it.each([
    ['a full queue', error(429, 'queue_full', 3), {}],
    ['the limit of a key that has one', error(429, 'rate_limit_exceeded', 3), { limited: true }],
    ['a prompt longer than a whole limit of its key', error(400, 'exceeds_key_limit'), { limited: true }],
    ['a revoked key', error(401, 'invalid_api_key'), { revoked: true }],
    ['a deadline of its own', error(408, 'deadline_exceeded'), { deadline: true }],
    ['a stop that came first', error(503, 'shutting_down'), { outage: orderly }],
    ['a stop whose time was over', error(503, 'shutting_down'), { outage: longBefore, endedMs: 140_000 }],
    ['a connection that a killed server broke', broken(true), { outage: killed }],
    ['a connection that a stopping server never took', broken(false), { outage: orderly }],
    ['a slow reader that a stopping server left', broken(true), { outage: longBefore, slow: true }],
    ['three engines lost on it', error(500, 'engine_failed'), { deaths: 3 }],
    ['a client that left', { kind: 'left' }, {}],
  ] as const)('lets pass: %s', (_, outcome, given) => {
    expect(complaintAbout(outcome, { ...usual, ...given })).toBeUndefined();
  });

  it.each([
    ['a limit for a key that has none', error(429, 'rate_limit_exceeded', 3), {}],
    ['a prompt longer than the limit of a key that has none', error(400, 'exceeds_key_limit'), {}],
    ['429 without Retry-After', error(429, 'queue_full'), {}],
    ['401 for a live key', error(401, 'invalid_api_key'), {}],
    ['an answer for a revoked key', answer, { revoked: true }],
    ['408 without a deadline', error(408, 'deadline_exceeded'), {}],
    ['400 for a sound request', error(400, 'invalid_value'), {}],
    ['500', error(500, 'internal_error'), { deaths: 3 }],
    ['an engine lost twice', error(500, 'engine_failed'), { deaths: 2 }],
    ['the end of a server nobody told to end', error(503, 'shutting_down'), {}],
    [
      'a stop before its time was over',
      error(503, 'shutting_down'),
      { outage: longBefore, endedMs: 121_000 },
    ],
    ['a connection that a stop in good order broke', broken(true), { outage: longBefore }],
    ['a connection that just breaks', broken(true), {}],
    ['a model that fits in turn', error(503, 'model_does_not_fit'), {}],
    ['any error when all is calm', error(503, 'store_unavailable'), { calm: true }],
    ['nothing at all', { kind: 'nothing', why: 'silence' }, {}],
  ] as const)('objects to %s', (_, outcome, given) => {
    expect(complaintAbout(outcome, { ...usual, ...given })).toBeDefined();
  });
});

describe('a difference', () => {
  it('is named with its place', () => {
    expect(difference({ a: [1, { b: 2 }] }, { a: [1, { b: 3 }] })).toContain('a.1.b: expected 2, got 3');
    expect(difference({ text: 'one two' }, { text: 'one too' })).toContain('character 5');
    expect(difference([1], [1, 2])).toContain('1: expected nothing, got 2');
    expect(difference({ a: [1, null] }, { a: [1, null] })).toBeUndefined();
  });
});
