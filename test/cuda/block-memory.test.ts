// Memory of a simulated GPU: KV blocks take it as they are needed and give it back, and where there is no more, or no GPU any
// more, errors say so. Whatever becomes of memory, answers have the same bits.

import { afterEach, describe, expect, it } from 'vitest';
import type { Backend, BlockMemory } from '../../src/compute/backend.ts';
import { type BatchSequence, buildBatch } from '../../src/compute/batch.ts';
import { limitSimulatedMemory, loseSimulatedGpu, simulatedGpu } from '../support/simulated-gpu.ts';
import { randomTokens, tinyModel } from '../support/tiny-model.ts';

const BLOCKS = 400;
const model = tinyModel({
  layerCount: 1,
  hiddenSize: 32,
  headSize: 16,
  headCount: 2,
  kvHeadCount: 2,
  ffnSize: 32,
});
const { vocabSize } = model.spec;
const tokens = randomTokens(70, vocabSize, 3);

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

describe('KV blocks of the cuda backend', () => {
  const gpu = simulatedGpu();
  const open = async () => {
    const backend = await gpu.create(model, { blockCount: BLOCKS });
    return { backend, memory: backend.blockMemory as BlockMemory };
  };

  afterEach(() => {
    limitSimulatedMemory(undefined);
    loseSimulatedGpu(false);
  });

  it('have memory for a few at first, for more when they are needed, and for no more than is allowed', async () => {
    const { backend, memory } = await open();
    expect(memory.capacity).toBe(32);
    await logits(backend, ...filled(range(300, 340)));
    expect(memory.capacity).toBe(40);
    expect(await memory.fit(200, 220)).toBe(200);
    backend.releaseBlocks(Int32Array.from(range(310, 340)));
    expect(await memory.fit(0, 12)).toBe(12);
    expect(await memory.fit(0, 5)).toBe(10);
    backend.close();
  });

  it('hold the same bits while they grow, and when they are moved together', async () => {
    const { backend, memory } = await open();
    const expected = await logits(backend, text([0, 1, 2]));
    backend.releaseBlocks(Int32Array.of(0, 1, 2));
    await logits(backend, ...filled(range(0, 30)), text([399, 31, 200], 0, 40));
    await logits(backend, ...filled(range(100, 120)), text([399, 31, 200], 40, 69));
    // All around are given back, so that what the text has must move.
    backend.releaseBlocks(Int32Array.from([...range(0, 30), ...range(100, 120)]));
    expect(await memory.fit(0, 4)).toBe(4);
    expect(await logits(backend, text([399, 31, 200], 69))).toEqual(expected);
    backend.close();
  });

  it('are refused in good order where the GPU has no more memory, and go on when it has', async () => {
    const { backend, memory } = await open();
    const expected = await logits(backend, text([0, 1, 2]));
    await logits(backend, text([5, 9, 50], 0, 69));
    // The first step of a shape takes the memory that it works in.
    await logits(backend, text([5, 9, 50], 69));
    limitSimulatedMemory(1);
    expect(await memory.fit(200, BLOCKS)).toBe(32);
    await expect(logits(backend, ...filled(range(100, 140)))).rejects.toThrow(
      'the GPU has room for 32 KV blocks, not for 46',
    );
    // What was refused has left nothing behind.
    await expect(logits(backend, text([100, 101, 102], 69))).rejects.toThrow(
      'block 100, which holds nothing',
    );
    expect(await logits(backend, text([5, 9, 50], 69))).toEqual(expected);
    limitSimulatedMemory(undefined);
    expect(await memory.fit(46, BLOCKS)).toBe(46);
    await logits(backend, ...filled(range(100, 140)));
    backend.close();
  });

  it('take a part of what is asked for where there is no more', async () => {
    const { backend, memory } = await open();
    let limit = 0;
    let capacity = memory.capacity;
    while (capacity === 32) {
      limit += 128 << 10;
      limitSimulatedMemory(limit);
      capacity = await memory.fit(BLOCKS, BLOCKS);
    }
    expect(capacity).toBeLessThan(BLOCKS);
    expect(memory.capacity).toBe(capacity);
    backend.close();
  });

  it('are neither resized while a step runs nor released then', async () => {
    const { backend, memory } = await open();
    const running = logits(backend, text([0, 1, 2]));
    await expect(memory.fit(100, BLOCKS)).rejects.toThrow('a step is still running');
    expect(() => backend.releaseBlocks(Int32Array.of(0))).toThrow('a step is still running');
    backend.close();
    await running;
    await expect(memory.fit(10, BLOCKS)).rejects.toThrow('the backend is closed');
  });

  it('are lost with the GPU, which every later step says', async () => {
    const { backend } = await open();
    await logits(backend, text([0, 1, 2]));
    loseSimulatedGpu(true);
    await expect(logits(backend, text([3, 4, 5]))).rejects.toThrow('the GPU was lost: CUDA: ');
    loseSimulatedGpu(false);
    await expect(logits(backend, text([0, 1, 2]))).rejects.toThrow('the GPU was lost: CUDA: ');
    loseSimulatedGpu(true);
    backend.close();
  });

  it('keep the bits of two models apart that share a GPU', async () => {
    const one = await open();
    const other = await open();
    const expected = await logits(one.backend, text([0, 1, 2]));
    await logits(other.backend, ...filled(range(0, 40)));
    expect(await logits(other.backend, text([200, 201, 202]))).toEqual(expected);
    other.backend.close();
    expect(await logits(one.backend, text([0, 1, 2], 69))).toEqual(expected);
    one.backend.close();
  });
});

describe('a model that a GPU has no room for', () => {
  const gpu = simulatedGpu();
  afterEach(() => limitSimulatedMemory(undefined));

  it('is refused before it is loaded, with what it needs and what is free', async () => {
    limitSimulatedMemory(4096);
    await expect(gpu.create(model, { blockCount: 4 })).rejects.toThrow(
      /a simulated GPU has no room for this model: its weights take .* GB.*; 0\.00 GB were free/,
    );
  });

  it('is refused where memory runs out on the way', async () => {
    // Enough for the weights, not for the first KV blocks.
    limitSimulatedMemory(120 << 10);
    await expect(gpu.create(model, { blockCount: 400 })).rejects.toThrow('has no room for this model');
  });
});
