import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type QueuePosition, reportPosition } from './queue-position.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

describe('a stream that waits', () => {
  it('says where it is at once, then once a second where that has changed, until its first token', async () => {
    const comments: string[] = [];
    const queued: { position: QueuePosition | undefined; queuedMs: undefined } = {
      position: { position: 3, waitMs: 2140 },
      queuedMs: undefined,
    };
    let resolve = (_: string) => {};
    const first = new Promise<string>((settle) => {
      resolve = settle;
    });
    const told = reportPosition(first, { comment: (text) => comments.push(text) }, queued);
    expect(comments).toEqual(['queue position=3 wait=2.1s']);
    await vi.advanceTimersByTimeAsync(2500);
    expect(comments.length).toBe(1);
    queued.position = { position: 1, waitMs: 300 };
    await vi.advanceTimersByTimeAsync(400);
    expect(comments.length).toBe(1);
    await vi.advanceTimersByTimeAsync(600);
    expect(comments.at(-1)).toBe('queue position=1 wait=0.3s');
    queued.position = undefined;
    await vi.advanceTimersByTimeAsync(2000);
    resolve('token');
    expect(await told).toBe('token');
    queued.position = { position: 1, waitMs: 100 };
    await vi.advanceTimersByTimeAsync(2000);
    expect(comments.length).toBe(2);
  });
});
