import { expect, it } from 'vitest';
import { Membership } from '../membership.ts';
import { type NodeStatus, PROTOCOL } from '../messages.ts';
import { AwayModels } from './away-models.ts';
import { fleetModels } from './fleet-models.ts';

function statusOf(node: string, models: readonly string[], start = '1'): NodeStatus {
  return {
    protocol: PROTOCOL,
    node,
    start,
    roles: ['worker'],
    version: '1',
    draining: false,
    memoryBytes: 0,
    sentMs: 0,
    number: 1,
    heard: {},
    models: models.map((name) => ({
      name,
      aliases: [],
      key: `key of ${name}`,
      determinism: 'cpu',
      state: 'loaded',
      isDefault: true,
      pinned: false,
      createdSeconds: 0,
      weightBytes: 1,
    })),
  };
}

it('knows models of workers that have left for 15 minutes, unless another worker has them', () => {
  let nowMs = 0;
  const membership = new Membership();
  const away = new AwayModels(membership, new Map(), () => nowMs);
  const names = () => away.models(fleetModels(membership.workers())).map(({ name }) => name);
  membership.handle(statusOf('a', ['one', 'both']), nowMs);
  membership.handle(statusOf('b', ['both']), nowMs);
  expect(names()).toEqual([]);
  membership.handle({ ...statusOf('a', []), leaving: true }, nowMs);
  expect(names()).toEqual(['one']);
  // Back, and still reading its files.
  membership.handle(statusOf('a', [], '2'), nowMs);
  expect(names()).toEqual(['one']);
  membership.handle(statusOf('a', ['one', 'both'], '2'), nowMs);
  expect(names()).toEqual([]);
  membership.handle({ ...statusOf('a', [], '2'), leaving: true }, nowMs);
  nowMs = 899_999;
  expect(names()).toEqual(['one']);
  nowMs = 900_001;
  expect(names()).toEqual([]);
});
