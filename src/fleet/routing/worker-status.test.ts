import { describe, expect, it } from 'vitest';
import { expectedTimes, type RequestShape } from './expected-finish.ts';
import { inMemory } from './expected-prefix.ts';
import type { LoadedModelStatus } from './heartbeat.ts';
import { type Assignment, WorkerStatus } from './worker-status.ts';

const report: LoadedModelStatus = {
  modelKey: 'model',
  queuedTokens: [0, 100, 0],
  waiting: [0, 1, 0],
  oldestMs: [0, 0, 0],
  running: 2,
  maxRunning: 8,
  freeBlocks: 50,
  totalBlocks: 100,
  speeds: { promptTokenMs: 2, stepBaseMs: 30, stepRowMs: 1, stepTokens: 64 },
  answerTokens: 50,
};
const assignment = (number: number): Assignment => ({
  worker: 'a',
  modelKey: 'model',
  number,
  priority: 1,
  tokens: 64,
  blocks: 2,
});
const request: RequestShape = { priority: 1, ageMs: 0, promptTokens: 64, expectedTokens: 11, maxTokens: 20 };

describe('where a worker stands', () => {
  it('is what it says and what was sent since, once for each gateway that sends to it', () => {
    const status = new WorkerStatus(report, 3, 0);
    status.assign(assignment(1));
    expect([status.tokensOf(1), status.waitingOf(1), status.freeBlocks]).toEqual([292, 4, 44]);
    expect([status.tokensOf(0), status.sequences]).toEqual([0, 6]);
    status.renew(report, 0, 1, 500);
    expect([status.tokensOf(1), status.freeBlocks]).toEqual([164, 48]);
  });

  it('forgets what a heartbeat contains, and what has ended, each once', () => {
    const status = new WorkerStatus(report, 1, 0);
    for (const number of [1, 2, 3]) status.assign(assignment(number));
    status.renew(report, 2, 1, 500);
    expect([status.unseen, status.tokensOf(1)]).toEqual([1, 164]);
    status.end(assignment(2));
    expect(status.tokensOf(1)).toBe(164);
    status.end(assignment(3));
    expect([status.unseen, status.tokensOf(1), status.freeBlocks]).toEqual([0, 100, 50]);
  });
});

describe('expected times', () => {
  it('of an idle worker are those of its steps', () => {
    const idle = { ...report, queuedTokens: [0, 0, 0], waiting: [0, 0, 0], running: 0 } as const;
    const times = expectedTimes(new WorkerStatus(idle, 1, 0), request, inMemory(0), 0);
    // One step of 64 prompt tokens, then ten of one row.
    expect(times).toEqual({ waitMs: 0, firstTokenMs: 128 + 31, finishMs: 128 + 31 + 310, othersMs: 0 });
    expect(expectedTimes(new WorkerStatus(idle, 1, 0), request, inMemory(1), 0).firstTokenMs).toBe(64 + 31);
  });

  it('shrink with the queue while no heartbeat comes, but not below nothing', () => {
    const status = new WorkerStatus(report, 1, 1000);
    const waitAt = (nowMs: number) => expectedTimes(status, request, inMemory(0), nowMs).waitMs;
    expect(waitAt(1000)).toBeGreaterThan(200);
    expect(waitAt(1100)).toBeCloseTo(waitAt(1000) - 100);
    expect(waitAt(9000)).toBe(0);
  });

  it('count what running sequences lose', () => {
    const status = new WorkerStatus(report, 1, 0);
    // Two of them: 64 tokens of 2 ms each, and half of 11 rows of 1 ms.
    expect(expectedTimes(status, request, inMemory(0), 0).othersMs).toBe(2 * (128 + 5.5));
    expect(expectedTimes(status, request, inMemory(1), 0).othersMs).toBe(2 * (64 + 5.5));
  });
});
