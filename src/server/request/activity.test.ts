import { EventEmitter } from 'node:events';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Activity } from './activity.ts';

const DAY_MS = 86_400_000;

function begin(activity: Activity, limitMs: number, headers: Record<string, string> = {}) {
  const raw = Object.assign(new EventEmitter(), { writableEnded: false });
  return activity.begin({ headers } as FastifyRequest, { raw } as unknown as FastifyReply, limitMs);
}

describe('a request in the house', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it.each([1000, 30 * DAY_MS])('is ended after its limit of %d ms, not before', (limitMs) => {
    const { signal } = begin(new Activity(), limitMs);
    vi.advanceTimersByTime(limitMs - 1);
    expect(signal.aborted).toBe(false);
    vi.advanceTimersByTime(1);
    expect(signal.reason).toMatchObject({ status: 408, code: 'deadline_exceeded' });
  });

  it('of a client that left before it began is ended at once', () => {
    const raw = Object.assign(new EventEmitter(), { writableEnded: false, destroyed: true });
    const reply = { raw } as unknown as FastifyReply;
    const { signal } = new Activity().begin({ headers: {} } as FastifyRequest, reply, 1000);
    expect(signal.reason).toMatchObject({ name: 'ClientLeft' });
  });

  it('goes on without end where there is no limit, unless it asks for one', () => {
    const activity = new Activity();
    const endless = begin(activity, Number.POSITIVE_INFINITY);
    const hurried = begin(activity, Number.POSITIVE_INFINITY, { 'x-chairlift-timeout-ms': '500' });
    vi.advanceTimersByTime(500);
    expect(hurried.signal.reason).toMatchObject({ code: 'deadline_exceeded' });
    vi.advanceTimersByTime(400 * DAY_MS);
    expect(endless.signal.aborted).toBe(false);
    endless.end();
    hurried.end();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('may use a long shutdown limit in full, and none of one that is 0', () => {
    for (const limitMs of [0, 30 * DAY_MS]) {
      const activity = new Activity();
      const { signal, end } = begin(activity, Number.POSITIVE_INFINITY);
      void activity.drain(limitMs);
      vi.advanceTimersByTime(Math.max(0, limitMs - 1));
      expect(signal.aborted).toBe(limitMs === 0);
      vi.advanceTimersByTime(1);
      expect(signal.reason).toMatchObject({ code: 'shutting_down' });
      end();
    }
  });
});
