// The pool with real engine processes on copies of the embedded model.

import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { embeddedModelPath } from '../../test/support/embedded-model.ts';
import { collect, engineRequest } from '../../test/support/engine-requests.ts';
import { ManagedPool, type PoolEvent, type PoolModel, type PoolOptions } from './managed-pool.ts';
import type { ModelLease } from './model-pool.ts';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'chairlift-pool-'));
  for (const name of ['one', 'two', 'three']) copyFileSync(embeddedModelPath, join(folder, `${name}.gguf`));
});
afterAll(() => rmSync(folder, { recursive: true }));

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
    keepAliveMs: undefined,
    engine: { threads: 1 },
    kv: { kvType: 'f16', blocks: 64 },
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

describe('the model pool', () => {
  it('loads a model on the first request, once for many at a time, and answers', async () => {
    await withPool({}, async (pool, events) => {
      expect(states(pool)).toEqual(['unloaded', 'unloaded', 'unloaded']);
      const leases = await Promise.all([lease(pool, 'one'), lease(pool, 'first'), lease(pool, undefined)]);
      expect(new Set(leases.map(({ model }) => model.engine)).size).toBe(1);
      expect(events.filter(({ kind }) => kind === 'loaded').length).toBe(1);
      expect(pool.list()[0]).toMatchObject({ state: 'loaded', busy: 3 });
      const { tokenizer, engine } = (leases[0] as ModelLease).model;
      const prompt = tokenizer.encode('<|im_start|>user\nWhat is 2 + 3?<|im_end|>\n<|im_start|>assistant\n', {
        special: true,
      });
      const { tokens } = await collect(engine.submit(engineRequest({ prompt, sampling: { maxTokens: 30 } })));
      expect(tokenizer.decode(tokens[0] as number[])).toContain('5');
      for (const one of leases) one.release();
      for (const one of leases) one.release();
      expect(pool.list()[0]?.busy).toBe(0);
    });
  });

  it('unloads the least recently used idle model for room, never a busy or a pinned one', async () => {
    // Each takes about 23 MB: two fit.
    const models = [model('one', { pinned: true }), model('two'), model('three')];
    await withPool({ models, memoryBytes: 50e6 }, async (pool) => {
      (await lease(pool, 'one')).release();
      const two = await lease(pool, 'two');
      const refused = await pool.acquire('three');
      expect(refused).toMatchObject({ ok: false, failure: 'no-memory' });
      expect(states(pool)).toEqual(['loaded', 'loaded', 'failed']);
      two.release();
      (await lease(pool, 'three')).release();
      expect(states(pool)).toEqual(['loaded', 'unloaded', 'loaded']);
    });
  });

  it('unloads an idle model after its time, and its process is gone', async () => {
    await withPool({ keepAliveMs: 50 }, async (pool, events) => {
      const { model, release } = await lease(pool, 'one');
      const pid = (model.engine as unknown as { pid: number }).pid;
      process.kill(pid, 0);
      release();
      while (!events.some(({ kind }) => kind === 'unloaded'))
        await new Promise((resolve) => setTimeout(resolve, 10));
      expect(() => process.kill(pid, 0)).toThrow();
      expect(states(pool)[0]).toBe('unloaded');
      // And comes back when it is asked for.
      (await lease(pool, 'one')).release();
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
      },
    );
  });

  it('refuses new requests once it closes', async () => {
    await withPool({}, async (pool) => {
      await pool.close(10);
      expect(await pool.acquire('one')).toMatchObject({ ok: false, failure: 'closing' });
    });
  });
});
