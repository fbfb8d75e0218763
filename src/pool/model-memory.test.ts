import { describe, expect, it } from 'vitest';
import { embeddedModelPath } from '../../test/support/embedded-model.ts';
import { hasTestdata, testdata } from '../../test/support/testdata.ts';
import { dummyModel } from '../bench/dummy-model.ts';
import { BLOCK_TOKENS } from '../compute/backend.ts';
import { buildSpec } from '../model/build-spec.ts';
import { openSpec } from '../model/open-spec.ts';
import { type OpenedModel, openModelFiles } from '../weights/open-model.ts';
import { firstBytes, MemoryLedger } from './memory-ledger.ts';
import { type KvChoice, planMemory } from './model-memory.ts';

const GB = 1e9;
/** What a server takes by default of a machine of 24 GB. */
const budget = 0.7 * 24 * GB;

const plan = (model: OpenedModel, kv: KvChoice, budgetBytes = budget) =>
  planMemory(buildSpec(model), model.weights, budgetBytes, kv);

const oneBillion = dummyModel('llama-3.2-1b', 'Q8_0');
const anotherBillion = dummyModel('llama-3.2-1b', 'Q4_0');
const embedded = openModelFiles(embeddedModelPath);

describe('the memory of a model', () => {
  it('takes a number of blocks as it is, and as many as fit a number of bytes; refuses what holds none', () => {
    const { blockBytes } = plan(embedded, { kvType: 'f16', blocks: 64 });
    expect(plan(embedded, { kvType: 'f16', blocks: 64 }).blockCount).toBe(64);
    expect(plan(embedded, { kvType: 'f16', bytes: 3.5 * blockBytes }).blockCount).toBe(3);
    expect(() => plan(embedded, { kvType: 'f16', blocks: 2.5 })).toThrow('not 2.5');
    expect(() => plan(embedded, { kvType: 'f16', bytes: 10 })).toThrow(
      `10 bytes holds no block of ${blockBytes}`,
    );
  });

  it('leaves room for two models of 1B and the embedded one in 24 GB, by default', () => {
    const ledger = new MemoryLedger(budget);
    for (const [name, model] of [oneBillion, anotherBillion, embedded].entries()) {
      expect(ledger.reserve(String(name), plan(model, { kvType: 'f16' }))).toBe(true);
    }
    // And most of it is free for whoever needs it, the full context of both large ones at once.
    const { blockBytes } = plan(oneBillion, { kvType: 'f16' });
    expect(ledger.freeBytes).toBeGreaterThan((2 * blockBytes * 131_072) / BLOCK_TOKENS);
  });

  it('may grow to what the budget leaves beside the weights, and to 32 contexts at most', () => {
    const large = plan(oneBillion, { kvType: 'f16' });
    expect(large.firstBlocks).toBe(2048 / BLOCK_TOKENS);
    expect(large.weightBytes + large.blockCount * large.blockBytes).toBeLessThanOrEqual(budget);
    expect(large.weightBytes + (large.blockCount + 1) * large.blockBytes).toBeGreaterThan(budget);
    expect(plan(embedded, { kvType: 'f16' }).blockCount).toBe((32 * 4096) / BLOCK_TOKENS);
  });

  it('starts with 2048 tokens even where that is more than fits: the load says so', () => {
    const memory = plan(oneBillion, { kvType: 'f16' }, GB);
    expect(memory).toMatchObject({ firstBlocks: 64, blockCount: 64 });
    expect(firstBytes(memory)).toBeGreaterThan(GB);
  });

  it('begins small on a GPU, too, and may grow to what the budget leaves, of no layer to more than a kernel can bind', () => {
    const spec = buildSpec(anotherBillion);
    const onGpu = (layerBytes: number, one = spec) =>
      planMemory(one, anotherBillion.weights, 60 * GB, { kvType: 'f16', layerBytes }, { backend: 'webgpu' });
    const free = onGpu(100 * GB);
    expect(free).toMatchObject({ firstBlocks: 2048 / BLOCK_TOKENS, fixed: false });
    expect(free.weightBytes + free.blockCount * free.blockBytes).toBeLessThanOrEqual(60 * GB);
    expect(free.weightBytes + (free.blockCount + 1) * free.blockBytes).toBeGreaterThan(60 * GB);
    const { blockCount, blockBytes } = onGpu(2 ** 31 - 4);
    expect((blockCount * blockBytes) / spec.layers.length).toBeLessThan(2 ** 31);
    expect(((blockCount + 1) * blockBytes) / spec.layers.length).toBeGreaterThan(2 ** 31 - 4);
    // Where layers differ, the one with the largest blocks decides.
    const [cache, ...others] = spec.caches;
    if (cache === undefined) throw new Error('the model has caches');
    const uneven = { ...spec, caches: [{ ...cache, headCount: 2 * cache.headCount }, ...others] };
    expect(onGpu(2 ** 31 - 4, uneven).blockCount).toBe(Math.floor(blockCount / 2));
    expect(onGpu(blockBytes, spec)).toMatchObject({ firstBlocks: spec.layers.length });
  });

  it('has a fixed size where someone chose one', () => {
    expect(plan(oneBillion, { kvType: 'f16', blocks: 100 })).toMatchObject({
      blockCount: 100,
      firstBlocks: 100,
      fixed: true,
    });
    const { blockBytes } = plan(oneBillion, { kvType: 'q8' });
    expect(plan(oneBillion, { kvType: 'q8', bytes: 70.5 * blockBytes })).toMatchObject({
      blockCount: 70,
      firstBlocks: 70,
      fixed: true,
    });
    expect(() => plan(oneBillion, { kvType: 'q8', bytes: 10 })).toThrow(/give it more memory/);
  });
});

describe.skipIf(!hasTestdata)('the memory of a model that sees', () => {
  const open = (images: boolean) => openSpec(testdata('vision', 'qwen3_vl'), { images });

  it('counts its tower, and features of images up to their limit', () => {
    const [seeing, blind] = [open(true), open(false)];
    const kv = { kvType: 'f16', blocks: 8 } as const;
    const text = planMemory(blind.spec, blind.weights, budget, kv);
    expect(text.imageBytes).toBeUndefined();
    const whole = planMemory(seeing.spec, seeing.weights, budget, kv);
    expect(whole.imageBytes).toBe(1 << 30);
    const tower = whole.weightBytes - text.weightBytes - (1 << 30);
    expect(tower).toBeGreaterThan(100_000);
    // Little memory has little of it for images.
    expect(planMemory(seeing.spec, seeing.weights, 64e6, kv).imageBytes).toBeLessThan(64e6 / 8);
    const chosen = planMemory(seeing.spec, seeing.weights, budget, { ...kv, imageBytes: 1000 });
    expect(chosen.weightBytes - text.weightBytes).toBe(tower + 1000);
    for (const { weights } of [seeing, blind]) weights.close();
  });
});
