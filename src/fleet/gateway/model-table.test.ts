import fc from 'fast-check';
import { expect, it } from 'vitest';
import { workerStatus } from '../../../test/support/node-status.ts';
import { Membership } from '../membership.ts';
import type { ModelLoad, ModelStatus, NodeStatus } from '../messages.ts';
import { ModelTable } from './model-table.ts';

const counts = fc.tuple(fc.nat(3), fc.nat(3), fc.nat(3));
const load: fc.Arbitrary<ModelLoad> = fc.record({
  totalBlocks: fc.constantFrom(100, 200),
  freeBlocks: fc.nat(100),
  running: fc.nat(5),
  maxRunning: fc.constant(8),
  waiting: counts,
  queuedTokens: counts,
  oldestMs: counts,
  speeds: fc.constant({ stepTokens: 256 }),
  answerTokens: fc.nat(50),
  steps: fc.nat(9),
});
const model = fc.record({
  name: fc.constantFrom('a', 'b', 'c'),
  aliases: fc.subarray(['x', 'y']),
  key: fc.constantFrom('k1', 'k2'),
  determinism: fc.constantFrom('cpu', 'gpu'),
  isDefault: fc.boolean(),
  pinned: fc.boolean(),
  createdSeconds: fc.constant(1),
  memoryBytes: fc.option(fc.nat(100), { nil: undefined }),
  weightBytes: fc.constant(1),
  computedBy: fc.option(fc.constantFrom('cpu', 'gpu'), { nil: undefined }),
  load: fc.option(load, { nil: undefined }),
});
const models = fc
  .uniqueArray(model, { selector: ({ name }) => name, maxLength: 3 })
  .map((all) =>
    all.map((one): ModelStatus => ({ ...one, state: one.load === undefined ? 'unloaded' : 'loaded' })),
  );
const event = fc.record({
  node: fc.constantFrom('w1', 'w2', 'w3', 'w4'),
  draining: fc.boolean(),
  models: fc.option(models, { freq: 5, nil: undefined }),
});

/** What a table says, looked up among all statuses as if there were none. */
function looked(statuses: readonly NodeStatus[]) {
  const all = statuses.flatMap((status) => status.models.map((own) => ({ node: status.node, own })));
  const of = (name: string) => all.filter(({ own }) => own.name === name);
  const votes = (name: string) => of(name).filter(({ own }) => own.isDefault).length;
  const names = [...new Set(all.map(({ own }) => own.name))];
  names.sort((a, b) => votes(b) - votes(a) || (a < b ? -1 : 1));
  return names.map((name) => {
    const has = (key: string) => of(name).filter(({ own }) => own.key === key);
    const drained = new Set(statuses.filter(({ draining }) => draining).map(({ node }) => node));
    const serving = (key: string) => has(key).filter(({ node }) => !drained.has(node)).length;
    const more = (a: string, b: string) => serving(b) - serving(a) || has(b).length - has(a).length;
    const keys = [...new Set(of(name).map(({ own }) => own.key))];
    const [key = ''] = keys.sort((a, b) => more(a, b) || (a < b ? -1 : 1));
    const replicas = of(name).filter(({ own }) => own.key === key);
    const loads = replicas.flatMap(({ own }) => own.load ?? []);
    const sum = (amount: (one: ModelLoad) => number) => loads.reduce((total, one) => total + amount(one), 0);
    const memoryBytes = replicas.reduce((total, { own }) => total + (own.memoryBytes ?? 0), 0);
    return {
      name,
      key,
      nodes: replicas.map(({ node }) => node).sort(),
      aliases: [...new Set(replicas.flatMap(({ own }) => own.aliases))].sort(),
      computedBy: [...new Set(replicas.flatMap(({ own }) => own.computedBy ?? []))].sort(),
      state: loads.length > 0 ? 'loaded' : 'unloaded',
      pinned: replicas.some(({ own }) => own.pinned),
      memoryBytes: memoryBytes > 0 ? memoryBytes : undefined,
      busy: sum(({ running, waiting }) => running + waiting[0] + waiting[1] + waiting[2]),
      leastBlocks: loads.length > 0 ? Math.min(...loads.map(({ totalBlocks }) => totalBlocks)) : undefined,
      running: loads.length > 0 ? sum(({ running }) => running) : undefined,
      used: loads.length > 0 ? sum(({ totalBlocks, freeBlocks }) => totalBlocks - freeBlocks) : undefined,
    };
  });
}

function said(table: ModelTable): ReturnType<typeof looked> {
  return table.models.map(({ name, key, replicas, entry, leastBlocks, knownLoad }) => ({
    name,
    key,
    nodes: replicas.map(({ status }) => status.node).sort(),
    aliases: [...entry.aliases].sort(),
    computedBy: entry.computedBy?.split('; ').sort() ?? [],
    state: entry.state,
    pinned: entry.pinned,
    memoryBytes: entry.memoryBytes,
    busy: entry.busy,
    leastBlocks,
    running: knownLoad?.running,
    used: knownLoad?.blocks.used,
  }));
}

it('a table says at any time what the statuses of all workers say', () => {
  fc.assert(
    fc.property(fc.array(event, { maxLength: 30 }), (events) => {
      const membership = new Membership();
      const table = ModelTable.of(membership);
      for (const [i, { node, draining, models }] of events.entries()) {
        const status = workerStatus(node, { number: i + 1, draining, models: models ?? [] });
        membership.handle(models === undefined ? { ...status, leaving: true } : status, i);
        expect(said(table)).toEqual(looked(membership.workers()));
      }
    }),
    { numRuns: 300 },
  );
});

it('a name, an alias and the default are found; files that are not the pinned ones are not', () => {
  const own = (over: Partial<ModelStatus>) =>
    ({
      name: 'a',
      key: 'k1',
      aliases: [],
      state: 'loaded',
      isDefault: false,
      pinned: false,
      ...over,
    }) as unknown as ModelStatus;
  const table = new ModelTable(new Map([['b', 'k1']]));
  table.set(workerStatus('w1', { models: [own({ aliases: ['b'] }), own({ name: 'c', isDefault: true })] }));
  table.set(workerStatus('w2', { models: [own({ name: 'b', key: 'k2' })] }));
  expect([undefined, 'a', 'b', 'c', 'd'].map((name) => table.find(name)?.name)).toEqual([
    'c',
    'a',
    'a',
    'c',
    undefined,
  ]);
  table.set(workerStatus('w2', { models: [own({ name: 'b', key: 'k12' })] }));
  expect(table.find('b')?.name).toBe('b');
  expect(table.content('b', 'k2')).toBeUndefined();
});

it('a name goes by the files of workers that take requests where others are drained', () => {
  const models = (key: string) => [
    {
      name: 'a',
      key,
      aliases: [],
      state: 'loaded',
      isDefault: false,
      pinned: false,
    } as unknown as ModelStatus,
  ];
  const table = new ModelTable();
  const say = (node: string, key: string, draining: boolean) =>
    table.set(workerStatus(node, { draining, models: models(key) }));
  for (const node of ['w1', 'w2']) say(node, 'old', false);
  say('w3', 'new', false);
  expect(table.find('a')?.key).toBe('old');
  for (const node of ['w1', 'w2']) say(node, 'old', true);
  expect(table.find('a')?.key).toBe('new');
  say('w3', 'new', true);
  expect(table.find('a')?.key).toBe('old');
});

it('a model is seen with what most of its workers see with, and with nothing where none does', () => {
  const table = new ModelTable();
  const say = (node: string, vision: string | undefined) => {
    const model = { name: 'a', key: 'k', aliases: [], state: 'loaded', vision } as unknown as ModelStatus;
    table.set(workerStatus(node, { models: [model] }));
  };
  const seen = () => [table.find('a')?.vision, table.find('a')?.entry.sees];
  say('w1', undefined);
  expect(seen()).toEqual([undefined, undefined]);
  say('w2', 'one');
  expect(seen()).toEqual(['one', true]);
  for (const node of ['w3', 'w4']) say(node, 'two');
  expect(seen()).toEqual(['two', true]);
  table.delete('w3');
  expect(seen()).toEqual(['one', true]);
  say('w2', undefined);
  table.delete('w4');
  expect(seen()).toEqual([undefined, undefined]);
});
