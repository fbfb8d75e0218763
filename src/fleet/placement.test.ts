import { describe, expect, it } from 'vitest';
import type { ModelStatus, NodeStatus } from './messages.ts';
import { placedOn } from './placement.ts';

function model(state: ModelStatus['state'], more: Partial<ModelStatus> = {}): ModelStatus {
  return {
    name: 'm',
    aliases: [],
    key: 'k',
    determinism: 'cpu',
    state,
    isDefault: true,
    pinned: false,
    createdSeconds: 0,
    weightBytes: 10,
    ...more,
  };
}

function worker(node: string, models: readonly ModelStatus[], more: Partial<NodeStatus> = {}): NodeStatus {
  return {
    protocol: 1,
    node,
    start: 'a',
    roles: ['worker'],
    version: '1',
    draining: false,
    memoryBytes: 100,
    number: 1,
    sentMs: 0,
    heard: {},
    models,
    ...more,
  };
}

const unloaded = ['a', 'b', 'c', 'd'].map((node) => worker(node, [model('unloaded')]));

describe('where a model is placed', () => {
  it('is the same for everybody, whatever the order in which workers are heard of', () => {
    const chosen = placedOn({ model: 'm', replicas: 2, nodes: [] }, unloaded);
    expect(chosen).toHaveLength(2);
    expect(placedOn({ model: 'm', replicas: 2, nodes: [] }, unloaded.toReversed())).toEqual(chosen);
  });

  it('is where it is already, before anywhere else', () => {
    for (const { node } of unloaded) {
      const workers = unloaded.map((one) => (one.node === node ? worker(node, [model('loaded')]) : one));
      expect(placedOn({ model: 'm', replicas: 1, nodes: [] }, workers)).toEqual([node]);
    }
  });

  it('is where it was wished to be, before where it is', () => {
    const workers = [worker('a', [model('loaded')]), ...unloaded.slice(1)];
    expect(placedOn({ model: 'm', replicas: 1, nodes: ['d'] }, workers)).toEqual(['d']);
    expect(placedOn({ model: 'm', replicas: 2, nodes: ['d'] }, workers)).toEqual(['d', 'a']);
  });

  it('is nowhere that drains, failed with it, lacks it, or has no memory for it', () => {
    const workers = [
      worker('a', [model('unloaded')], { draining: true }),
      worker('b', [model('failed')]),
      worker('c', []),
      worker('d', [model('unloaded'), model('loaded', { name: 'other', memoryBytes: 95 })]),
      worker('e', [model('unloaded')]),
    ];
    expect(placedOn({ model: 'm', replicas: 5, nodes: ['a', 'b', 'c', 'd'] }, workers)).toEqual(['e']);
  });
});
