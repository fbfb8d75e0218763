import { describe, expect, it } from 'vitest';
import { workerStatus } from '../../../test/support/node-status.ts';
import { nodeClock } from '../../runtime/clock.ts';
import { Membership } from '../membership.ts';
import type { ModelStatus, NodeStatus } from '../messages.ts';
import { toWire } from '../wire.ts';
import { FleetControl } from './fleet-control.ts';

function model(running: number, waiting: number, stepsPerSecond: number, over: Partial<ModelStatus> = {}) {
  return {
    name: 'm',
    aliases: [],
    key: 'a'.repeat(64),
    determinism: 'cpu',
    state: 'loaded',
    isDefault: true,
    pinned: false,
    createdSeconds: 1_795_000_000,
    weightBytes: 1e9,
    load: {
      totalBlocks: 1000,
      freeBlocks: 900,
      running,
      maxRunning: 64,
      waiting: [0, waiting, 0],
      queuedTokens: [0, 0, 0],
      oldestMs: [0, 0, 0],
      speeds: { stepTokens: 256 },
      answerTokens: 100,
      steps: 1,
      work: {
        steps: { stepsPerSecond, tokensPerStep: 10 * running, sequencesPerStep: running },
        blocks: { limit: 1000, used: 100, cached: 50, shared: 7 },
      },
    },
    ...over,
  } satisfies ModelStatus;
}

const node = (name: string, models: readonly ModelStatus[]) => workerStatus(name, { models });

function controlOf(
  nodes: readonly NodeStatus[],
  over: Partial<ConstructorParameters<typeof FleetControl>[0]> = {},
): FleetControl {
  const membership = new Membership();
  for (const status of nodes) membership.handle(status, 0);
  return new FleetControl({
    node: 'g',
    membership,
    desired: undefined,
    contents: { counts: () => [] },
    dispatched: { reassignments: 0, resends: 0, expectedTokens: { memory: 0, host: 0, disk: 0 } },
    archiveBytes: undefined,
    nowMs: () => 0,
    clock: nodeClock,
    ask: () => Promise.reject(new Error('asks nobody')),
    ...over,
  });
}

describe('the work of a fleet', () => {
  it('is that of each worker and model, the busiest first, and of all together', () => {
    const adapter = model(2, 3, 0, { name: 'm-a', adapterOf: 'm' });
    const { all, count, workers } = controlOf([
      node('w1', [model(1, 0, 30), model(0, 0, 0, { name: 'n', load: undefined })]),
      node('w2', [model(4, 1, 10), adapter]),
    ]).work(16);
    expect(count).toBe(2);
    expect(
      workers.map(({ node: name, model: of, running, waiting }) => [name, of, running, waiting]),
    ).toEqual([
      ['w2', 'm', 6, 4],
      ['w1', 'm', 1, 0],
    ]);
    expect(all).toEqual({
      running: 7,
      waiting: 4,
      steps: { stepsPerSecond: 40, tokensPerStep: 17.5, sequencesPerStep: 1.75 },
      blocks: { limit: 2000, used: 200, cached: 100, shared: 14 },
    });
  });

  it('lists no more workers than are asked for, and still counts all', () => {
    const fleet = controlOf(Array.from({ length: 500 }, (_, n) => node(`w${n}`, [model(n, 0, 1)])));
    const few = fleet.work(16);
    expect(few).toMatchObject({ count: 500, all: { running: 124_750 } });
    expect(few.workers).toHaveLength(16);
    expect(few.workers[0]).toMatchObject({ node: 'w499' });
    expect(JSON.stringify(few).length).toBeLessThan(6000);
    expect(fleet.work(500).workers).toHaveLength(500);
  });

  it('leaves out workers of versions that do not tell, and adds little to what they send', () => {
    const telling = model(1, 0, 9);
    const silent = { ...telling, load: telling.load && { ...telling.load, work: undefined } };
    expect(controlOf([node('old', [silent])]).work(16)).toMatchObject({ count: 0, workers: [] });
    const added = toWire(node('w', [telling])).length - toWire(node('w', [silent])).length;
    expect(added).toBeLessThan(160);
  });
});

describe('what all gateways may have together', () => {
  it.each([
    [16, 1],
    [16, 3],
    [16, 5],
    [2, 5],
  ])('is divided so that shares add up: %i among %i', (total, count) => {
    const membership = new Membership();
    const names = Array.from({ length: count }, (_, i) => `g${i}`);
    for (const name of names) membership.handle({ ...node(name, []), roles: ['gateway'] }, 0);
    const shares = names.map((name) => controlOf([], { node: name, membership }).share(total));
    expect(shares.reduce((sum, share) => sum + share, 0)).toBe(total);
    expect(Math.max(...shares) - Math.min(...shares)).toBeLessThanOrEqual(1);
  });

  it('is its own where it knows no other', () => {
    expect(controlOf([]).share(16)).toBe(16);
  });
});

describe('figures of a fleet', () => {
  it('count members by role and state, and leave out what the message system does not say', async () => {
    const figures = await controlOf([
      node('w1', []),
      { ...node('w2', []), draining: true },
      { ...node('g1', []), roles: ['gateway'] },
      { ...node('both', []), roles: ['worker', 'gateway'] },
    ]).figures();
    expect(figures).toMatchObject({ archiveBytes: undefined, reassignments: 0, resends: 0 });
    expect(figures.members).toEqual([
      { role: 'worker', state: 'serving', count: 2 },
      { role: 'worker', state: 'draining', count: 1 },
      { role: 'gateway', state: 'serving', count: 2 },
      { role: 'gateway', state: 'draining', count: 0 },
    ]);
  });
});
