// Memory of KV blocks on a GPU: it begins small, grows with the need, is given back, and where a GPU has no more, that is
// no end. Whatever becomes of it, answers have the same bits.

import { expect, it } from 'vitest';
import type { Backend, BlockMemory, KvType } from '../../src/compute/backend.ts';
import { type BatchSequence, buildBatch } from '../../src/compute/batch.ts';
import { sizesOf } from '../../src/compute/memory.ts';
import { createWebGpuBackend } from '../../src/compute/webgpu/backend.ts';
import { LocalEngine } from '../../src/engine/local-engine.ts';
import { planMemory } from '../../src/pool/model-memory.ts';
import { collect, engineRequest } from '../support/engine-requests.ts';
import { sharedGpu, withBinding } from '../support/gpu-backend.ts';
import { LimitedGpu } from '../support/limited-gpu.ts';
import { describeOnFastestGpu, isSlowGpu } from '../support/on-gpu.ts';
import { randomTokens, tinyModel } from '../support/tiny-model.ts';

const BLOCKS = 400;
const LAYERS = 4;
const model = tinyModel({ layerCount: LAYERS, hiddenSize: 16, headSize: 16, headCount: 2, kvHeadCount: 2 });
const { vocabSize } = model.spec;
const tokens = randomTokens(70, vocabSize, 3);
const blockBytes = (kvType: KvType) => sizesOf('webgpu').kvBlockBytes(model.spec, kvType);

async function logits(backend: Backend, ...sequences: readonly BatchSequence[]): Promise<Float32Array> {
  return (await backend.step(buildBatch(sequences))).logits.slice();
}

/** The first tokens of a text, or those from one on. */
const text = (blocks: readonly number[], from = 0, to = tokens.length): BatchSequence => ({
  tokens: tokens.slice(from, to),
  start: from,
  blocks,
  wantLogits: 'last',
});

/** Something in each of these blocks. */
const filled = (blocks: readonly number[]): BatchSequence[] =>
  blocks.map((block) => ({ tokens: [block % vocabSize], start: 0, blocks: [block], wantLogits: 'none' }));

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, at) => from + at);

describeOnFastestGpu('KV blocks on a GPU', () => {
  const { gpu: real } = sharedGpu();

  const open = async (kvType: KvType = 'f16', blockCount = BLOCKS) => {
    const limited = new LimitedGpu(real());
    const options = { blockCount, kvType, gpu: limited.gpu };
    const backend = await createWebGpuBackend(model.spec, model.weights, options);
    return { backend, limited, memory: backend.blockMemory as BlockMemory };
  };

  it.each<KvType>(['f16', 'q8'])('take memory as they are needed, and give it back: %s', async (kvType) => {
    const { backend, limited, memory } = await open(kvType);
    const few = await open(kvType, 32);
    // However many there may be, a model that was just loaded has taken memory for the same few.
    expect(limited.bytes).toBe(few.limited.bytes);
    few.backend.close();
    expect(memory.capacity).toBe(32);
    const bytes = limited.bytes;
    await logits(backend, ...filled(range(300, 340)));
    expect(memory.capacity).toBe(64);
    expect(limited.bytes).toBe(bytes + 32 * blockBytes(kvType));
    expect(await memory.fit(200, 220)).toBe(200);
    expect(limited.bytes).toBe(bytes + 168 * blockBytes(kvType));
    backend.releaseBlocks(Int32Array.from(range(310, 340)));
    expect(await memory.fit(0, 10)).toBe(10);
    expect(limited.bytes).toBe(bytes - 22 * blockBytes(kvType));
    backend.close();
    expect(limited.bytes).toBe(0);
  });

  it('and all else that a model takes are counted before it is loaded', async () => {
    const { backend, limited } = await open();
    const { bindingBytes: layerBytes } = real().info.limits;
    const choice = { kvType: 'f16', layerBytes } as const;
    const planned = planMemory(model.spec, model.weights, 1e9, choice, { backend: 'webgpu' });
    const counted = planned.weightBytes + 32 * planned.blockBytes;
    // Norms, rotary tables and padding are not.
    expect(Math.abs(limited.bytes - counted) / counted).toBeLessThan(0.01);
    backend.close();
  });

  it('hold the same bits while they grow, and when they are moved together', async () => {
    const { backend, memory } = await open();
    const expected = await logits(backend, text([0, 1, 2]));
    backend.releaseBlocks(Int32Array.of(0, 1, 2));
    await logits(backend, ...filled(range(0, 30)), text([399, 31, 200], 0, 40));
    const before = memory.capacity;
    await logits(backend, ...filled(range(100, 180)), text([399, 31, 200], 40, 69));
    expect(memory.capacity).toBeGreaterThan(before);
    // All around are given back, so that what the text has must move.
    backend.releaseBlocks(Int32Array.from([...range(0, 30), ...range(100, 180)]));
    expect(await memory.fit(0, 4)).toBe(4);
    expect(await logits(backend, text([399, 31, 200], 69))).toEqual(expected);
    backend.close();
  });

  it('keep what they hold where less is allowed', async () => {
    const { backend, memory } = await open();
    const expected = await logits(backend, text([0, 1, 2]));
    await logits(backend, text([5, 9, 50], 0, 69));
    expect(await memory.fit(0, 1)).toBe(6);
    expect(await logits(backend, text([5, 9, 50], 69))).toEqual(expected);
    backend.close();
  });

  it('are refused in good order where the GPU has no more memory, and go on when it has', async () => {
    const { backend, limited, memory } = await open();
    const expected = await logits(backend, text([0, 1, 2]));
    await logits(backend, text([5, 9, 50], 0, 69));
    // Twice as many do not fit; what is needed does, with a layer that is there twice for a moment.
    limited.limitBytes = limited.bytes + 9 * blockBytes('f16') + (32 * blockBytes('f16')) / LAYERS;
    expect(await memory.fit(40, BLOCKS)).toBe(40);
    const { bytes } = limited;
    limited.limitBytes = bytes + 2 * blockBytes('f16');
    expect(await memory.fit(60, BLOCKS)).toBe(40);
    expect(limited.bytes).toBe(bytes);
    await expect(logits(backend, ...filled(range(100, 140)))).rejects.toThrow(
      'the GPU has room for 40 KV blocks, not for 46',
    );
    // What was refused has left nothing behind.
    await expect(logits(backend, text([100, 101, 102], 69))).rejects.toThrow(
      'block 100, which holds nothing',
    );
    expect(await logits(backend, text([5, 9, 50], 69))).toEqual(expected);
    // A part of what is asked for is taken where there is no more.
    limited.limitBytes = bytes + 20 * blockBytes('f16');
    const part = await memory.fit(80, BLOCKS);
    expect(part).toBeGreaterThan(40);
    expect(part).toBeLessThan(60);
    expect(limited.bytes).toBeLessThanOrEqual(limited.limitBytes);
    expect(await memory.fit(0, 40)).toBe(40);
    limited.limitBytes = Number.POSITIVE_INFINITY;
    expect(await memory.fit(46, BLOCKS)).toBe(80);
    await logits(backend, ...filled(range(100, 140)));
    backend.close();
  });

  it('take no more than one layer twice while they grow', async () => {
    const { backend, limited, memory } = await open();
    await logits(backend, text([5, 9, 50]));
    await memory.fit(200, BLOCKS);
    limited.peakBytes = 0;
    const { bytes } = limited;
    await memory.fit(400, BLOCKS);
    expect(limited.bytes).toBe(bytes + 200 * blockBytes('f16'));
    expect(limited.peakBytes).toBe(bytes + 200 * blockBytes('f16') + (200 * blockBytes('f16')) / LAYERS);
    backend.close();
  });

  it('are neither resized while a step runs nor computed with while they are resized', async () => {
    const { backend, memory } = await open();
    const running = logits(backend, text([0, 1, 2]));
    await expect(memory.fit(100, BLOCKS)).rejects.toThrow('a step is still running');
    await running;
    const growing = memory.fit(100, BLOCKS);
    await expect(logits(backend, text([3, 4, 5]))).rejects.toThrow('a step is still running');
    await growing;
    const closing = memory.fit(300, BLOCKS);
    backend.close();
    await closing;
    await expect(memory.fit(10, BLOCKS)).rejects.toThrow('the backend is closed');
  });

  // Hundreds of steps: a minute on a slow one, and the engine's part of it is tested without a GPU.
  it.skipIf(isSlowGpu)(
    'give the same answers whatever an engine may hold and the GPU has meanwhile',
    async () => {
      // One of the requests takes five.
      const FEW = 6;
      const requests = range(0, 3).map((seed) =>
        engineRequest({
          prompt: randomTokens(60 + 30 * seed, vocabSize, seed),
          sampling: { temperature: 0.8, seed, maxTokens: 24, ignoreEos: true },
        }),
      );
      const answers = async (disturb: (engine: LocalEngine) => () => void, refuses = false) => {
        const { backend, limited, memory } = await open();
        if (refuses) {
          await memory.fit(0, FEW);
          limited.limitBytes = limited.bytes;
        }
        const engine = new LocalEngine(backend, {
          blockCount: BLOCKS,
          budget: { kind: 'fixed', maxStepTokens: 64 },
          vocabSize,
          contextLength: model.spec.contextLength,
          endIds: [],
          speculation: false,
        });
        const stop = disturb(engine);
        const all = await Promise.all(requests.map((request) => collect(engine.submit(request))));
        stop();
        expect(all.map(({ finish }) => finish.reason)).toEqual(requests.map(() => 'length'));
        const { preemptions } = (await engine.stats()).counters;
        const { capacity } = memory;
        await engine.close();
        return { tokens: all.map(({ tokens }) => tokens), preemptions, capacity };
      };
      const expected = await answers(() => () => {});
      const allowed = await answers((engine) => {
        const limits = [40, FEW, 12, FEW - 1];
        let steps = 0;
        const step = () => {
          if (steps++ % 6 === 0) engine.engine.allow(limits[Math.floor(steps / 6) % limits.length] as number);
        };
        return engine.monitor.subscribe({ step }).end;
      });
      const refused = await answers(() => () => {}, true);
      expect(allowed.tokens).toEqual(expected.tokens);
      expect(allowed.preemptions).toBeGreaterThan(0);
      expect(allowed.capacity).toBeLessThanOrEqual(40);
      expect(refused.tokens).toEqual(expected.tokens);
      expect(refused.preemptions).toBeGreaterThan(0);
      expect(refused.capacity).toBe(FEW);
    },
  );

  it('are no more than the GPU can bind', async () => {
    const gpu = withBinding(real(), (100 * blockBytes('f16')) / LAYERS);
    const load = (blockCount: number) => createWebGpuBackend(model.spec, model.weights, { blockCount, gpu });
    await expect(load(101)).rejects.toThrow('101 KV blocks of this model are more than the GPU can bind');
    (await load(100)).close();
  });
});
