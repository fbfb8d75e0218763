import { expect, it } from 'vitest';
import { workerStatus } from '../../../test/support/node-status.ts';
import type { ModelLoad, NodeStatus } from '../messages.ts';
import { WorkerHealth } from './worker-health.ts';

const worker = { node: 'w', start: '1' };

function statusOf(
  steps: number,
  running: number,
  speeds: ModelLoad['speeds'] = { stepTokens: 256 },
  over: Partial<ModelLoad> = {},
): NodeStatus {
  const load: ModelLoad = {
    totalBlocks: 10,
    freeBlocks: 10,
    running,
    maxRunning: 4,
    waiting: [0, 0, 0],
    queuedTokens: [0, 0, 0],
    oldestMs: [0, 0, 0],
    speeds,
    answerTokens: 1,
    steps,
    ...over,
  };
  const model = {
    ...{ name: 'm', aliases: [], key: 'k', determinism: 'cpu', state: 'loaded' as const, load },
    ...{ isDefault: true, pinned: false, createdSeconds: 0, weightBytes: 1 },
  };
  return workerStatus(worker.node, { start: worker.start, models: [model] });
}

it('a worker that acknowledges nothing is avoided, tried with one request, and avoided for longer', () => {
  const health = new WorkerHealth();
  const avoids = (nowMs: number) => health.avoided('m', nowMs).includes('w');
  health.failed(worker, 0);
  // The next one that it was given before.
  health.failed(worker, 100);
  expect([avoids(4999), avoids(5000)]).toEqual([true, false]);
  health.chosen(worker, 5000);
  expect(avoids(5001)).toBe(true);
  health.failed(worker, 9500);
  expect([avoids(19_499), avoids(19_500)]).toEqual([true, false]);
  health.chosen(worker, 20_000);
  health.acknowledged(worker);
  expect(avoids(20_001)).toBe(false);
  health.failed(worker, 30_000);
  expect(avoids(35_000)).toBe(false);
});

it('another process of its name is not avoided for it', () => {
  const health = new WorkerHealth();
  health.failed(worker, 0);
  health.handle(statusOf(1, 0), 1);
  expect(health.avoided('m', 1)).toEqual(['w']);
  health.handle({ ...statusOf(1, 0), start: '2' }, 1);
  expect(health.avoided('m', 1)).toEqual([]);
});

it('a worker is stuck that has work and makes no step for seconds, or for as long as two of its steps take', () => {
  const health = new WorkerHealth();
  const after = (nowMs: number, ...of: Parameters<typeof statusOf>) => {
    health.handle(statusOf(...of), nowMs);
    const isStuck = health.isStuck(worker, 'm');
    expect(health.avoided('m', nowMs)).toEqual(isStuck ? ['w'] : []);
    expect(health.avoided('another', nowMs)).toEqual([]);
    return isStuck;
  };
  expect(after(0, 7, 0)).toBe(false);
  expect(after(60_000, 7, 1)).toBe(false);
  expect([after(65_000, 7, 1), after(65_001, 7, 1)]).toEqual([false, true]);
  expect(after(65_500, 8, 1)).toBe(false);
  const slow = { stepTokens: 256, promptTokenMs: 40, stepBaseMs: 100, stepRowMs: 1 };
  expect([after(80_000, 8, 1, slow), after(90_000, 8, 1, slow)]).toEqual([false, true]);
  expect(after(90_500, 8, 0)).toBe(false);
});

it('a worker whose requests all wait for their pictures is not stuck, and is once one does not', () => {
  const health = new WorkerHealth();
  const waits = (preparing: number) => statusOf(7, 0, undefined, { waiting: [0, 2, 0], preparing });
  for (const nowMs of [0, 3000, 6000]) health.handle(waits(2), nowMs);
  expect(health.isStuck(worker, 'm')).toBe(false);
  for (const nowMs of [7000, 10_000, 13_000]) health.handle(waits(1), nowMs);
  expect(health.isStuck(worker, 'm')).toBe(true);
});
