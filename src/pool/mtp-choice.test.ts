// An MTP head is loaded where it can draft and there is memory for it; where not, the model is served without, and says so.

import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Eagle3Model, eagle3Models, writeEagle3 } from '../../test/support/eagle3-folders.ts';
import { writeFolderWithMtp } from '../../test/support/random-folder.ts';
import type { EngineChoice } from './engine-choice.ts';
import { openLocalModel } from './local-model.ts';
import { ManagedPool, type PoolEvent } from './managed-pool.ts';
import { firstBytes } from './memory-ledger.ts';
import { planMemory } from './model-memory.ts';
import { givenDrafter, mtpChoice } from './mtp-choice.ts';

const tokenizer = fileURLToPath(new URL('../../tools/embedded-model/tokenizer.json', import.meta.url));
const kv = { kvType: 'f16' } as const;
const BUDGET = 1e9;

let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'chairlift-'));
  writeFolderWithMtp(folder, 'never right', 4096);
  copyFileSync(tokenizer, join(folder, 'tokenizer.json'));
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Whether the model is served with its head, and what is said of it. */
async function served(memoryBytes: number, engine: EngineChoice = {}) {
  const events: PoolEvent[] = [];
  const pool = new ManagedPool({
    models: [{ name: 'one', path: folder, aliases: [], pinned: false, createdSeconds: 0 }],
    memoryBytes,
    cores: 2,
    keepAliveMs: undefined,
    engine: { threads: 1, ...engine },
    kv,
    onEvent: (event) => events.push(event),
  });
  try {
    const result = await pool.acquire('one');
    if (!result.ok) throw new Error(result.message);
    const head = result.lease.model.spec.mtp;
    return { head, notices: events.filter(({ kind }) => kind === 'fallback').map(({ message }) => message) };
  } finally {
    await pool.close(1000);
  }
}

describe('an MTP head', () => {
  it('is loaded with its model', async () => {
    expect(await served(BUDGET)).toMatchObject({ head: expect.anything(), notices: [] });
  });

  it('is left out where speculation is off, without a word', async () => {
    expect(await served(BUDGET, { engine: { speculation: false } })).toEqual({
      head: undefined,
      notices: [],
    });
  });

  it('is left out where there is memory for the model alone', async () => {
    const least = (mtp: boolean) => {
      const { spec, weights, close } = openLocalModel(folder, { mtp });
      close();
      const fits = (budget: number) => firstBytes(planMemory(spec, weights, budget, kv)) <= budget;
      let [low, high] = [0, BUDGET];
      while (high - low > 1) {
        const middle = Math.floor((low + high) / 2);
        if (fits(middle)) high = middle;
        else low = middle;
      }
      return high;
    };
    const whole = least(true);
    expect(least(false)).toBeLessThan(whole);
    const { head, notices } = await served(whole - 1);
    expect(head).toBeUndefined();
    expect(notices).toEqual(['its MTP head is left out: there is no memory for it']);
  });

  it('is left out beside a draft model, and on GPUs', () => {
    expect(mtpChoice({})).toBe(true);
    expect(mtpChoice({ backend: 'reference' })).toBe(true);
    expect(mtpChoice({ draftPath: 'small.gguf' })).toBe(false);
    expect(mtpChoice({ backend: 'cuda' })).toEqual({ problem: 'the cuda backend cannot compute it' });
    expect(mtpChoice({ backend: 'webgpu', speculation: false })).toBe(false);
  });
});

describe('a path that is given to draft', () => {
  let given: string;

  beforeAll(() => {
    given = mkdtempSync(join(tmpdir(), 'chairlift-'));
    writeEagle3(given, Object.values(eagle3Models)[0] as Eagle3Model);
  });

  afterAll(() => rmSync(given, { recursive: true, force: true }));

  it('is a model, or an EAGLE-3 head where its folder says so', () => {
    const [head, model] = [join(given, 'head'), join(given, 'model')];
    expect(givenDrafter({ draftPath: head })).toEqual({ eagle3Path: head });
    expect(givenDrafter({ draftPath: model })).toEqual({ draftPath: model });
    expect(givenDrafter({ draftPath: 'small.gguf', backend: 'cuda' })).toEqual({ draftPath: 'small.gguf' });
    expect(givenDrafter({ draftPath: head, speculation: false })).toEqual({});
  });

  it('is refused where it is such a head and a GPU computes', () => {
    const draftPath = join(given, 'head');
    expect(() => givenDrafter({ draftPath, backend: 'cuda' })).toThrow(
      /EAGLE-3 head, which the cuda backend/,
    );
  });
});
