// The pool with real engine processes on copies of the embedded model.

import { copyFileSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { blockBytes, startBytes, weightBytes } from '../../test/support/embedded-memory.ts';
import { embeddedModelPath } from '../../test/support/embedded-model.ts';
import { collect, engineRequest } from '../../test/support/engine-requests.ts';
import { childrenOf, waitUntil } from '../../test/support/server-process.ts';
import { randomTokens } from '../../test/support/tiny-model.ts';
import { ManagedPool, type PoolEvent, type PoolOptions, shareOfCores } from './managed-pool.ts';
import type { ModelLease } from './model-pool.ts';
import type { PoolModel } from './model-slots.ts';
import { SupervisedEngine } from './supervised-engine.ts';

/** Enough for one of the models, and too little for two. */
const oneAloneBytes = 1.9 * startBytes;

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'chairlift-pool-'));
  for (const name of ['one', 'two', 'three']) copyFileSync(embeddedModelPath, join(folder, `${name}.gguf`));
});
afterAll(() => rmSync(folder, { recursive: true }));

const node = process.execPath;
afterEach(() => {
  process.execPath = node;
  vi.useRealTimers();
});

const model = (name: string, more: Partial<PoolModel> = {}): PoolModel => ({
  name,
  path: join(folder, `${name}.gguf`),
  aliases: [],
  pinned: false,
  createdSeconds: 0,
  ...more,
});

async function withPool(
  options: Partial<PoolOptions>,
  use: (pool: ManagedPool, events: PoolEvent[]) => Promise<void>,
): Promise<void> {
  const events: PoolEvent[] = [];
  const pool = new ManagedPool({
    models: [model('one', { aliases: ['first'] }), model('two'), model('three')],
    memoryBytes: 1e9,
    cores: 2,
    keepAliveMs: undefined,
    engine: { threads: 1 },
    kv: { kvType: 'f16' },
    onEvent: (event) => events.push(event),
    ...options,
  });
  try {
    await use(pool, events);
  } finally {
    await pool.close(1000);
  }
}

async function lease(pool: ManagedPool, name: string | undefined): Promise<ModelLease> {
  const result = await pool.acquire(name);
  if (!result.ok) throw new Error(result.message);
  return result.lease;
}

const states = (pool: ManagedPool) => pool.list().map(({ state }) => state);
const memoryOf = (pool: ManagedPool, name: string) =>
  pool.list().find((entry) => entry.name === name)?.memoryBytes ?? 0;
const allMemory = (pool: ManagedPool) =>
  pool.list().reduce((sum, { memoryBytes = 0 }) => sum + memoryBytes, 0);
const loads = (events: readonly PoolEvent[]) => events.filter(({ kind }) => kind === 'loading').length;

async function answer(
  { model: { engine } }: ModelLease,
  tokens: number,
  maxTokens: number,
  { seed = 1, enqueuedMs = Date.now() } = {},
) {
  const prompt = randomTokens(tokens, 4000, seed);
  const sampling = { maxTokens, ignoreEos: true };
  return (await collect(engine.submit(engineRequest({ prompt, sampling, enqueuedMs })))).tokens;
}

describe('the model pool', () => {
  it('loads a model on the first request, once for many at a time, and answers', async () => {
    await withPool({}, async (pool, events) => {
      expect(states(pool)).toEqual(['unloaded', 'unloaded', 'unloaded']);
      const leases = await Promise.all([lease(pool, 'one'), lease(pool, 'first'), lease(pool, undefined)]);
      expect(new Set(leases.map(({ model }) => model.engine)).size).toBe(1);
      expect(events.filter(({ kind }) => kind === 'loaded').length).toBe(1);
      expect(pool.list()[0]).toMatchObject({ state: 'loaded', busy: 3, memoryBytes: startBytes });
      const { tokenizer, engine } = (leases[0] as ModelLease).model;
      const prompt = tokenizer.encode('<|im_start|>user\nWhat is 2 + 3?<|im_end|>\n<|im_start|>assistant\n', {
        special: true,
      });
      const { tokens } = await collect(engine.submit(engineRequest({ prompt, sampling: { maxTokens: 30 } })));
      expect(tokenizer.decode(tokens)).toContain('5');
      for (const one of leases) one.release();
      for (const one of leases) one.release();
      expect(pool.list()[0]?.busy).toBe(0);
    });
  });

  it('unloads the least recently used idle model for room, waits for a busy one, and never for a pinned one', async () => {
    const models = [model('one', { pinned: true }), model('two'), model('three')];
    const kv = { kvType: 'f16', blocks: 64 } as const;
    await withPool({ models, kv, memoryBytes: 2.1 * startBytes }, async (pool) => {
      (await lease(pool, 'one')).release();
      const two = await lease(pool, 'two');
      const three = lease(pool, 'three');
      expect(states(pool)).toEqual(['loaded', 'loaded', 'waiting']);
      expect(await pool.acquire('three', { atOnce: true })).toMatchObject({
        ok: false,
        failure: 'no-memory',
      });
      two.release();
      (await three).release();
      expect(states(pool)).toEqual(['loaded', 'unloaded', 'loaded']);
    });
    await withPool({ models, kv, memoryBytes: oneAloneBytes }, async (pool) => {
      (await lease(pool, 'one')).release();
      const refused = await pool.acquire('two');
      expect(refused).toMatchObject({ ok: false, failure: 'no-memory' });
      const [own, budget] = [startBytes, oneAloneBytes].map((bytes) => `${Math.round(bytes / 1e6)} MB`);
      expect(refused.ok ? '' : refused.message).toContain(
        `needs ${own}, but the memory budget is ${budget}, of which ${own} belong to pinned models`,
      );
      expect(states(pool)).toEqual(['loaded', 'unloaded', 'unloaded']);
    });
  });

  it('never counts on the same memory for two loads at once', async () => {
    const kv = { kvType: 'f16', blocks: 64 } as const;
    await withPool({ kv, memoryBytes: oneAloneBytes }, async (pool) => {
      const asked = [lease(pool, 'one'), lease(pool, 'two')];
      expect(allMemory(pool)).toBe(startBytes);
      expect(states(pool).slice(0, 2)).toEqual(['loading', 'waiting']);
      (await asked[0])?.release();
      (await asked[1])?.release();
      expect(allMemory(pool)).toBe(startBytes);
    });
  });

  it('loads nothing for a request that has left while it waited for its model', async () => {
    const kv = { kvType: 'f16', blocks: 64 } as const;
    await withPool({ kv, memoryBytes: oneAloneBytes }, async (pool, events) => {
      const one = await lease(pool, 'one');
      const leaving = new AbortController();
      const two = pool.acquire('two', { signal: leaving.signal });
      expect(pool.list()[1]).toMatchObject({ state: 'waiting', busy: 1 });
      leaving.abort();
      expect(await two).toMatchObject({ ok: false, failure: 'cancelled' });
      expect(pool.list()[1]).toMatchObject({ state: 'unloaded', busy: 0 });
      one.release();
      await sleep(50);
      expect(states(pool)).toEqual(['loaded', 'unloaded', 'unloaded']);
      expect(loads(events)).toBe(1);
    });
  });

  it('unloads an idle model after its time, and its process is gone', async () => {
    await withPool({ keepAliveMs: 50 }, async (pool, events) => {
      const { model, release } = await lease(pool, 'one');
      const pid = (model.engine as SupervisedEngine).pid as number;
      process.kill(pid, 0);
      release();
      await waitUntil(() => events.some(({ kind }) => kind === 'unloaded'));
      expect(() => process.kill(pid, 0)).toThrow();
      expect(states(pool)[0]).toBe('unloaded');
      expect(memoryOf(pool, 'one')).toBe(0);
      // And comes back when it is asked for.
      (await lease(pool, 'one')).release();
    });
  });

  it('keeps an idle model for as long as the last who said so wants, but a pinned one always', async () => {
    const models = [model('one'), model('two', { pinned: true })];
    await withPool({ models, keepAliveMs: 90 * 86_400_000 }, async (pool, events) => {
      const expiry = () => (pool.list()[0]?.expiresMs ?? Number.POSITIVE_INFINITY) - Date.now();
      (await lease(pool, 'one')).release(60_000);
      expect(expiry()).toBeLessThanOrEqual(60_000);
      (await lease(pool, 'one')).release();
      expect(expiry()).toBeLessThanOrEqual(60_000);
      (await lease(pool, 'one')).release(Number.POSITIVE_INFINITY);
      expect(expiry()).toBe(Number.POSITIVE_INFINITY);
      (await lease(pool, 'two')).release(0);
      const held = await lease(pool, 'one');
      (await lease(pool, 'one')).release(0);
      expect(states(pool)).toEqual(['loaded', 'loaded']);
      held.release();
      await waitUntil(() => events.some(({ kind }) => kind === 'unloaded'));
      expect(states(pool)).toEqual(['unloaded', 'loaded']);
      // What was said is forgotten with it.
      (await lease(pool, 'one')).release();
      expect(expiry()).toBeGreaterThan(86_400_000);
    });
  });

  it('keeps an idle model for as long as it says, though that be months', async () => {
    await withPool({ keepAliveMs: 90 * 86_400_000 }, async (pool) => {
      (await lease(pool, 'one')).release();
      await sleep(100);
      expect(states(pool)[0]).toBe('loaded');
    });
  });

  it('says what is wrong with a name or a file', async () => {
    await withPool(
      { models: [model('one'), { ...model('two'), path: join(folder, 'missing.gguf') }] },
      async (pool) => {
        expect(await pool.acquire('nobody')).toMatchObject({ ok: false, failure: 'unknown-model' });
        const failed = await pool.acquire('two');
        expect(failed).toMatchObject({ ok: false, failure: 'load-failed' });
        expect(failed.ok ? '' : failed.message).toMatch(/does not exist/);
        expect(allMemory(pool)).toBe(0);
      },
    );
  });

  it('tries again by itself for a default model that failed, and for no other', async () => {
    const later = { ...model('one'), path: join(folder, 'later.gguf') };
    const missing = { ...model('two'), path: join(folder, 'missing.gguf') };
    await withPool({ models: [later, missing], retryMs: 20 }, async (pool) => {
      for (const name of ['one', 'two']) expect((await pool.acquire(name)).ok).toBe(false);
      copyFileSync(embeddedModelPath, later.path);
      await waitUntil(() => states(pool)[0] === 'loaded');
      expect(states(pool)).toEqual(['loaded', 'failed']);
      rmSync(later.path);
    });
  });

  it('tries again once, however many asked for the default model and failed', async () => {
    const missing = { ...model('one'), path: join(folder, 'never.gguf') };
    await withPool({ models: [missing], retryMs: 50 }, async (pool, events) => {
      for (let n = 0; n < 20; n++) expect((await pool.acquire('one')).ok).toBe(false);
      const failures = () => events.filter(({ kind }) => kind === 'failed').length;
      const asked = failures();
      await waitUntil(() => failures() >= asked + 3);
      // A retry for each of them would have come at once.
      expect(failures()).toBeLessThan(asked + 20);
    });
  });

  it('leaves after a while where whoever asked for it left while it was loaded', async () => {
    await withPool({ models: [model('one')], keepAliveMs: 100 }, async (pool) => {
      const controller = new AbortController();
      const asked = pool.acquire('one', { signal: controller.signal });
      await waitUntil(() => states(pool)[0] === 'loading');
      controller.abort();
      expect((await asked).ok).toBe(false);
      await waitUntil(() => states(pool)[0] === 'unloaded');
    });
  });

  it('unloads what is not in use, and takes no offence where it is not loaded', async () => {
    await withPool({}, async (pool, events) => {
      expect(await pool.unload('one')).toBe(true);
      const { release } = await lease(pool, 'one');
      expect(await pool.unload('one')).toBe(false);
      release();
      expect(await pool.unload('first')).toBe(true);
      expect(states(pool)[0]).toBe('unloaded');
      expect(await pool.unload('one')).toBe(true);
      expect(await pool.unload('nobody')).toBe(false);
      expect(events.filter(({ kind }) => kind === 'unloaded').length).toBe(1);
    });
  });
});

describe('a pool that closes', () => {
  it('refuses new requests', async () => {
    await withPool({}, async (pool) => {
      await pool.close(10);
      expect(await pool.acquire('one')).toMatchObject({ ok: false, failure: 'closing' });
    });
  });

  it.each([0, 5, 50, 300])('leaves nothing of a load that began %d ms before', async (ms) => {
    await withPool({}, async (pool) => {
      const asked = [pool.acquire('one'), pool.acquire('two')];
      await sleep(ms);
      await pool.close(10);
      expect(engineProcesses()).toEqual([]);
      const results = await Promise.all(asked);
      // A fast machine has loaded a model within 300 ms; it is closed all the same.
      const refused = ms < 300 ? results : results.filter(({ ok }) => !ok);
      for (const result of refused) expect(result).toMatchObject({ ok: false, failure: 'closing' });
      expect(states(pool)).toEqual(['unloaded', 'unloaded', 'unloaded']);
      expect(allMemory(pool)).toBe(0);
    });
  });

  it('lets running requests end, within its limit', async () => {
    await withPool({}, async (pool) => {
      const held = await lease(pool, 'one');
      const running = answer(held, 10, 50);
      await pool.close(60_000);
      expect((await running).length).toBe(50);
      expect(engineProcesses()).toEqual([]);
    });
  });
});

describe('KV memory without a fixed size', () => {
  it('leaves room for all models side by side: they take turns without a reload', async () => {
    // What each takes at the start, and a third of what one of them alone might take.
    await withPool({ memoryBytes: 3 * startBytes + 100 * blockBytes }, async (pool, events) => {
      const expected = new Map<string, number[]>();
      for (let round = 0; round < 3; round++) {
        for (const name of ['one', 'two', 'three']) {
          const held = await lease(pool, name);
          const tokens = await answer(held, 40, 5);
          expect(tokens).toEqual(expected.get(name) ?? tokens);
          expected.set(name, tokens);
          held.release();
        }
      }
      expect(loads(events)).toBe(3);
      expect(states(pool)).toEqual(['loaded', 'loaded', 'loaded']);
    });
  });

  it('grows with the need, is taken back where another needs it, and the answers stay the same', async () => {
    // It takes 71 blocks: only one of them can have as many at a time. Each starts with 64, and a context has 128.
    const memoryBytes = 2 * weightBytes + (64 + 72) * blockBytes;
    const long = [2240, 20] as const;
    let alone: number[] = [];
    await withPool({}, async (pool) => {
      alone = await answer(await lease(pool, 'one'), ...long);
    });
    await withPool({ memoryBytes }, async (pool, events) => {
      const [one, two] = [await lease(pool, 'one'), await lease(pool, 'two')];
      expect(memoryOf(pool, 'one')).toBe(startBytes);
      expect(await answer(one, ...long)).toEqual(alone);
      expect(memoryOf(pool, 'one')).toBeGreaterThan(startBytes + 6 * blockBytes);
      const other = await answer(two, ...long, { seed: 2 });
      expect(memoryOf(pool, 'two')).toBeGreaterThan(startBytes + 6 * blockBytes);
      // Both at once, neither older than the other: one waits for the other, and nobody for ever.
      const enqueuedMs = Date.now();
      const both = [
        answer(one, ...long, { seed: 2, enqueuedMs }),
        answer(two, ...long, { seed: 1, enqueuedMs }),
      ];
      expect(await Promise.all(both)).toEqual([other, alone]);
      expect(allMemory(pool)).toBeLessThanOrEqual(memoryBytes);
      expect(loads(events)).toBe(2);
      expect(events.filter(({ kind }) => kind === 'incident')).toEqual([]);
    });
  });

  it('makes way for a load', async () => {
    await withPool({ memoryBytes: 2 * startBytes + 10 * blockBytes }, async (pool, events) => {
      const one = await lease(pool, 'one');
      await answer(one, 2400, 5);
      expect(memoryOf(pool, 'one')).toBeGreaterThan(startBytes + 10 * blockBytes);
      const two = await lease(pool, 'two');
      expect(memoryOf(pool, 'one')).toBeLessThanOrEqual(startBytes + 10 * blockBytes);
      expect((await answer(two, 40, 5)).length).toBe(5);
      expect(loads(events)).toBe(2);
    });
  });
});

describe('the cores', () => {
  it('are shared by the engines at work, and all belong to one that is alone', async () => {
    const told = new Map<unknown, number>();
    const spy = vi.spyOn(SupervisedEngine.prototype, 'useThreads').mockImplementation(function (
      this: SupervisedEngine,
      count,
    ) {
      told.set(this, count);
    });
    await withPool({ engine: {}, cores: 7 }, async (pool) => {
      const [one, two, three] = [
        await lease(pool, 'one'),
        await lease(pool, 'two'),
        await lease(pool, 'three'),
      ];
      const threads = () => [one, two, three].map((held) => told.get(held?.model.engine));
      expect(threads()).toEqual([3, 2, 2]);
      two.release();
      expect([threads()[0], threads()[2]]).toEqual([4, 3]);
      three.release();
      expect(threads()[0]).toBe(7);
      (await lease(pool, 'two')).release();
      expect(threads()[0]).toBe(7);
    });
    spy.mockRestore();
  });

  it('are given whole, none of them twice while there are enough, and one to each at least', () => {
    for (let cores = 1; cores <= 9; cores++) {
      for (let engines = 1; engines <= 12; engines++) {
        const shares = Array.from({ length: engines }, (_, at) => shareOfCores(cores, engines, at));
        expect(Math.min(...shares)).toBeGreaterThanOrEqual(1);
        expect(shares.reduce((sum, share) => sum + share)).toBe(Math.max(cores, engines));
      }
    }
  });
});

describe('the folder of models', () => {
  it('is looked at again, so that models come and go without a restart', async () => {
    const find = () =>
      readdirSync(folder)
        .filter((file) => file.endsWith('.gguf'))
        .sort()
        .map((file) => model(file.replace('.gguf', '')));
    await withPool({ models: find(), find }, async (pool) => {
      const before = pool.list().map(({ name }) => name);
      expect(await pool.acquire('new')).toMatchObject({ ok: false, failure: 'unknown-model' });
      copyFileSync(embeddedModelPath, join(folder, 'new.gguf'));
      await waitUntil(() => pool.list().some(({ name }) => name === 'new'));
      (await lease(pool, 'new')).release();
      // The default one stays the default.
      expect(pool.list().map(({ name }) => name)).toEqual([...before, 'new']);
      rmSync(join(folder, 'new.gguf'));
      await sleep(1100);
      expect(pool.list().map(({ name }) => name)).toEqual([...before, 'new']);
      expect(await pool.unload('new')).toBe(true);
      await waitUntil(() => pool.list().length === before.length);
    });
  });
});

describe('where no process can be spawned', () => {
  it('models are served all the same, without batching, and it is told', async () => {
    process.execPath = '/nowhere/node';
    await withPool({}, async (pool, events) => {
      const held = await lease(pool, 'one');
      expect(held.model.direct).toBe(true);
      expect((await answer(held, 10, 5)).length).toBe(5);
      expect(pool.fallbacks).toBe(1);
      const told = events.find(({ kind }) => kind === 'fallback');
      expect(told?.message).toMatch(/no engine process \(.*ENOENT.*one request at a time/);
      process.execPath = node;
      await waitUntil(() => events.some(({ kind }) => kind === 'returned'));
      expect(held.model.direct).toBe(false);
      expect((await answer(held, 10, 5)).length).toBe(5);
    });
  });
});

describe('an engine that does not survive its load', () => {
  it('is a failure that says so, and leaves no memory counted', async () => {
    await withPool({}, async (pool, events) => {
      const asked = pool.acquire('one');
      let result: Awaited<typeof asked> | undefined;
      asked.then((value) => {
        result = value;
      });
      while (result === undefined) {
        for (const pid of engineProcesses()) process.kill(pid, 'SIGKILL');
        await sleep(1);
      }
      expect(result).toMatchObject({ ok: false, failure: 'engine-died' });
      expect(states(pool)[0]).toBe('failed');
      expect(allMemory(pool)).toBe(0);
      expect(pool.fallbacks).toBe(0);
      expect(events.filter(({ kind }) => kind === 'incident').length).toBe(2);
      // It may work the next time.
      (await lease(pool, 'one')).release();
    });
  });
});

/** Engine processes of this test; `ps` itself is a child, too, but gone by the time it is read. */
function engineProcesses(): number[] {
  return childrenOf(process.pid).filter((pid) => {
    try {
      process.kill(pid, 0);
      return true;
    } catch {
      return false;
    }
  });
}
