import { describe, expect, it } from 'vitest';
import { Membership } from '../membership.ts';
import { type ModelStatus, type NodeStatus, PROTOCOL } from '../messages.ts';
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
      work: {
        steps: { stepsPerSecond, tokensPerStep: 10 * running, sequencesPerStep: running },
        blocks: { limit: 1000, used: 100, cached: 50, shared: 7 },
      },
    },
    ...over,
  } satisfies ModelStatus;
}

function node(name: string, models: readonly ModelStatus[]): NodeStatus {
  const common = { protocol: PROTOCOL, start: '1', version: '1', draining: false, memoryBytes: 1, number: 1 };
  return { ...common, node: name, roles: ['worker'], models, heard: {} };
}

function controlOf(nodes: readonly NodeStatus[]): FleetControl {
  const membership = new Membership();
  for (const status of nodes) membership.handle(status, 0);
  return new FleetControl({
    membership,
    desired: undefined,
    contents: { counts: () => [] },
    dispatched: { reassignments: 0, resends: 0 },
    archiveBytes: undefined,
    nowMs: () => 0,
    ask: () => Promise.reject(new Error('asks nobody')),
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
