import { expect, it } from 'vitest';
import { workerStatus } from '../../../test/support/node-status.ts';
import { Membership } from '../membership.ts';
import type { NodeStatus } from '../messages.ts';
import { AwayModels } from './away-models.ts';
import { ModelTable } from './model-table.ts';

function statusOf(node: string, names: readonly string[], start = '1'): NodeStatus {
  const models = names.map((name) => ({
    ...{ name, aliases: [], key: `key of ${name}`, determinism: 'cpu', state: 'loaded' as const },
    ...{ isDefault: true, pinned: false, createdSeconds: 0, weightBytes: 1 },
  }));
  return workerStatus(node, { start, models });
}

it('knows models of workers that have left for 15 minutes, unless another worker has them', () => {
  let nowMs = 0;
  const membership = new Membership();
  const away = new AwayModels(membership, new Map(), () => nowMs);
  const table = ModelTable.of(membership);
  const names = () => away.models(table).map(({ name }) => name);
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
