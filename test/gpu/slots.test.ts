// Saved slots on a GPU, whose memory for KV blocks begins small and grows.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { sizesOf } from '../../src/compute/memory.ts';
import { createWebGpuBackend } from '../../src/compute/webgpu/backend.ts';
import { LocalEngine } from '../../src/engine/local-engine.ts';
import type { SlotAction } from '../../src/engine/slots/slot-action.ts';
import { type Answer, collect, engineRequest } from '../support/engine-requests.ts';
import { sharedGpu } from '../support/gpu-backend.ts';
import { LimitedGpu } from '../support/limited-gpu.ts';
import { describeOnFastestGpu } from '../support/on-gpu.ts';
import { randomTokens, tinyModel } from '../support/tiny-model.ts';

const folder = mkdtempSync(join(tmpdir(), 'chairlift-slots-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Of the memory that a model has at its start: 32 blocks. */
const BLOCKS = 100;
const model = tinyModel({
  layerCount: 2,
  hiddenSize: 16,
  headSize: 16,
  headCount: 2,
  kvHeadCount: 2,
  contextLength: 2048,
});
const { vocabSize } = model.spec;

const file = { slot: 0, tenant: 'ann', owner: 'ann', name: 'one.bin' };
const save: SlotAction = { kind: 'save', ...file };
const restore: SlotAction = { kind: 'restore', ...file, account: 'ann' };

describeOnFastestGpu('saved slots on a GPU', () => {
  const { gpu: real } = sharedGpu();

  const open = async () => {
    const limited = new LimitedGpu(real());
    const options = { blockCount: BLOCKS, gpu: limited.gpu };
    const backend = await createWebGpuBackend(model.spec, model.weights, options);
    const engine = new LocalEngine(backend, {
      blockCount: BLOCKS,
      budget: { kind: 'fixed', maxStepTokens: 256 },
      vocabSize,
      contextLength: model.spec.contextLength,
      endIds: [],
      speculation: false,
      slots: { folder },
    });
    engine.engine.identify('tiny', { model: 'tiny', adapters: [] });
    const ask = (length: number) =>
      collect(
        engine.submit({
          ...engineRequest(
            {
              prompt: randomTokens(length, vocabSize, 5),
              sampling: { maxTokens: 8, ignoreEos: true, logprobs: 1 },
              salt: 'ann',
            },
            vocabSize,
          ),
          slot: 0,
        }),
      );
    return { limited, engine, ask, capacity: () => backend.blockMemory?.capacity ?? 0 };
  };

  let short: Answer;
  let long: Answer;
  beforeAll(async () => {
    const { engine, ask } = await open();
    short = await ask(300);
    long = await ask(1100);
    expect(await engine.actOnSlot(save)).toMatchObject({ ok: true, tokens: 1088 });
    await engine.close();
  });

  it('have the bits that were saved, and memory grows for them', async () => {
    const { engine, ask, capacity } = await open();
    expect(capacity()).toBe(32);
    expect(await engine.actOnSlot(restore)).toMatchObject({ ok: true, tokens: 1088 });
    expect(capacity()).toBeGreaterThanOrEqual(34);
    const again = await ask(1100);
    expect(again.finish.cachedTokens).toBe(1088);
    expect(again.tokens).toEqual(long.tokens);
    expect(again.logprobs).toEqual(long.logprobs);
    await engine.close();
  });

  it('are refused where the GPU has no memory for them, and it goes on with others', async () => {
    const { engine, ask, limited } = await open();
    limited.limitBytes = limited.bytes + sizesOf('webgpu').kvBlockBytes(model.spec, 'f16');
    expect(await engine.actOnSlot(restore)).toMatchObject({ ok: false, failure: 'busy' });
    expect((await engine.stats()).blocks.used).toBe(0);
    expect((await ask(300)).tokens).toEqual(short.tokens);
    await engine.close();
  });
});
