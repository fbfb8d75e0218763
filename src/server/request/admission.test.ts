import { describe, expect, it } from 'vitest';
import { ApiError } from '../http/errors.ts';
import { Admission, type AdmissionLimits } from './admission.ts';

function refusal(act: () => unknown): ApiError {
  try {
    act();
  } catch (error) {
    if (error instanceof ApiError) return error;
  }
  throw new Error('it was admitted');
}

function newDoor(limits: Partial<AdmissionLimits>, nowMs = () => 0): Admission {
  const wide = { maxQueuedRequests: 1000, maxQueuedSequences: 1000, maxQueuedTokens: 1_000_000 };
  return new Admission({ ...wide, ...limits }, nowMs);
}

describe('the queue', () => {
  it('takes N requests and not one more, until one starts or leaves', () => {
    const door = newDoor({ maxQueuedRequests: 2, maxQueuedTokens: 1000 });
    const first = door.enter('m');
    const second = door.enter('m');
    expect(refusal(() => door.enter('m'))).toMatchObject({ status: 429, code: 'queue_full' });
    first.start();
    door.enter('m');
    expect(refusal(() => door.enter('m')).status).toBe(429);
    second.leave();
    second.leave();
    door.enter('m');
    expect(refusal(() => door.enter('m')).status).toBe(429);
  });

  it('takes N tokens, but always one request alone', () => {
    const door = newDoor({ maxQueuedRequests: 10, maxQueuedTokens: 100 });
    const long = door.enter('m');
    long.weigh(5000);
    const next = door.enter('m');
    expect(refusal(() => next.weigh(1)).message).toContain('5000 tokens');
    long.start();
    const after = door.enter('m');
    after.weigh(100);
    expect(refusal(() => door.enter('m').weigh(1)).status).toBe(429);
  });

  it('takes N sequences, each until its first token, but always one request alone', () => {
    const door = newDoor({ maxQueuedSequences: 100 });
    const many = door.enter('m', { sequences: 4096 });
    expect(refusal(() => door.enter('m')).message).toContain('4096 sequences');
    many.start();
    for (let n = 0; n < 4036; n++) many.begin();
    const next = door.enter('m', { sequences: 40 });
    expect(refusal(() => door.enter('m')).status).toBe(429);
    many.leave();
    next.leave();
    next.begin();
    door.enter('m', { sequences: 100 });
    expect(refusal(() => door.enter('m')).status).toBe(429);
  });

  it('keeps a share of its sequences for an account that another would shut out', () => {
    const door = newDoor({ maxQueuedSequences: 100 });
    door.enter('m', { account: 'flood', sequences: 100 });
    expect(refusal(() => door.enter('m', { account: 'flood' })).status).toBe(429);
    door.enter('m', { account: 'other', sequences: 50 });
    expect(refusal(() => door.enter('m', { account: 'other' })).status).toBe(429);
  });

  it('stays open to an account that others would shut out, up to its share', () => {
    const door = newDoor({ maxQueuedRequests: 8, maxQueuedTokens: 1000 });
    for (let n = 0; n < 8; n++) door.enter('m', { account: 'flood' }).weigh(125);
    expect(refusal(() => door.enter('m', { account: 'flood' })).status).toBe(429);
    const tickets = Array.from({ length: 4 }, () => door.enter('m', { account: 'other' }));
    for (const ticket of tickets) ticket.weigh(125);
    expect(refusal(() => door.enter('m', { account: 'other' })).status).toBe(429);
    for (const ticket of tickets) ticket.leave();
    expect(refusal(() => door.enter('m', { account: 'flood' })).status).toBe(429);
    door.enter('m', { account: 'other' });
  });

  it('is one for each model', () => {
    const door = newDoor({ maxQueuedRequests: 1, maxQueuedTokens: 100 });
    door.enter('a');
    door.enter('b');
    expect(refusal(() => door.enter('a')).status).toBe(429);
  });

  it('estimates the wait by the recent rate', () => {
    let nowMs = 0;
    const door = newDoor({ maxQueuedRequests: 3, maxQueuedTokens: 10_000 }, () => nowMs);
    // 1000 tokens in 10 seconds: a hundred a second.
    for (nowMs = 1000; nowMs <= 10_000; nowMs += 1000) {
      const ticket = door.enter('m');
      ticket.weigh(100);
      ticket.start();
    }
    nowMs = 11_000;
    for (let n = 0; n < 3; n++) door.enter('m').weigh(1000);
    const { headers, message } = refusal(() => door.enter('m'));
    expect(headers['retry-after']).toBe('30');
    expect(message).toContain('30 s');
  });
});

describe('those who wait', () => {
  it('are counted by whether a client waits for them', () => {
    const door = newDoor({ maxQueuedRequests: 10, maxQueuedTokens: 100 });
    const awaited = door.enter('m', { account: 'a' });
    const line = door.enter('m', { account: 'a', background: true });
    expect([door.waiting, door.awaited]).toEqual([2, 1]);
    line.start();
    line.leave();
    expect([door.waiting, door.awaited]).toEqual([1, 1]);
    awaited.leave();
    expect([door.waiting, door.awaited]).toEqual([0, 0]);
  });
});
