import { expect, it } from 'vitest';
import type { EngineClient } from '../../engine/engine-client.ts';
import type { ModelPool } from '../../pool/model-pool.ts';
import { nodeClock } from '../../runtime/clock.ts';
import { Ledger } from './ledger.ts';
import { WorkerModels } from './worker-models.ts';

const path = new URL('../../../models/chairlift-demo-14m-q8_0.gguf', import.meta.url).pathname;

async function statusWith(ledger: Ledger) {
  const engine = {} as EngineClient;
  const pool = {
    list: () => [{ name: 'm', aliases: [], path, state: 'loaded', pinned: false, createdSeconds: 0 }],
    loaded: () => [{ name: 'm', engine, blockCount: 100 }],
  } as unknown as ModelPool;
  const models = new WorkerModels({
    pool,
    ledger,
    keys: { of: async () => 'key', ofTower: async () => 'tower' },
    readsPictures: false,
    determinism: () => 'cpu',
    maxRunning: 16,
    clock: nodeClock,
    onProblem: (message) => expect.fail(message),
  });
  models.status();
  await expect.poll(() => models.status().length).toBe(1);
  return models.status()[0]?.load;
}

const request = { attempt: 1, gateway: 'g', model: 'm', priority: 1, enqueuedMs: 0, answer: [] } as const;

it('has as much to compute as its requests have beyond what is cached of them', async () => {
  const ledger = new Ledger();
  ledger.open({ ...request, id: 'one', promptTokens: 500, cachedTokens: 448 });
  ledger.open({ ...request, id: 'two', promptTokens: 100, cachedTokens: 0, answer: [1, 2, 3] });
  expect(await statusWith(ledger)).toMatchObject({ queuedTokens: [0, 155, 0], waiting: [0, 2, 0] });
});

it('tells of no speeds before it has measured any', async () => {
  expect((await statusWith(new Ledger()))?.speeds).toEqual({ stepTokens: 256 });
});
