import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { randomTokens, type TinyModelOptions, tinyModel } from '../../../test/support/tiny-model.ts';
import { type TensorType, tensorLayouts } from '../../weights/tensor-type.ts';
import type { Backend } from '../backend.ts';
import { type BatchSequence, buildBatch } from '../batch.ts';
import { createReferenceBackend } from './backend.ts';

const BLOCKS = 24;

function backendOf(options: TinyModelOptions): Promise<Backend> {
  const { spec, weights } = tinyModel(options);
  return createReferenceBackend(spec, weights, { blockCount: BLOCKS });
}

async function logitsOf(backend: Backend, sequences: readonly BatchSequence[]): Promise<Float32Array> {
  return (await backend.step(buildBatch(sequences))).logits.slice();
}

const whole = (tokens: readonly number[], blocks: readonly number[]): BatchSequence => ({
  tokens,
  start: 0,
  blocks,
  wantLogits: 'last',
});

const features: Readonly<Record<string, TinyModelOptions>> = {
  plain: {},
  'windowed with q/k norm': { window: 10, queryKeyNorm: true, layerCount: 3 },
  'biased, fused, partly rotated': { biases: true, fused: true, rotatedValues: 8 },
  'gemma-like': {
    postNorms: true,
    queryKeyNorm: true,
    activation: 'gelu-tanh',
    normOffset: 1,
    embeddingScale: 8,
    window: 7,
    attentionSoftcap: 5,
    logitSoftcap: 3,
    tiedHead: true,
  },
  'heads of 80, one shared': { headSize: 80, headCount: 3, kvHeadCount: 1, interleaved: true },
};

describe.each(Object.entries(features))('the reference backend, %s', (_, options) => {
  const tokens = randomTokens(75, 131);

  it('gives the same logits for a prompt whole and in any chunks', async () => {
    const backend = await backendOf(options);
    const expected = await logitsOf(backend, [whole(tokens, [0, 1, 2])]);
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(fc.integer({ min: 1, max: 74 }), { maxLength: 4 }), async (cuts) => {
        const edges = [0, ...cuts.sort((a, b) => a - b), tokens.length];
        let logits: Float32Array = new Float32Array();
        for (const [index, start] of edges.slice(0, -1).entries()) {
          const chunk = tokens.slice(start, edges[index + 1]);
          logits = await logitsOf(backend, [{ tokens: chunk, start, blocks: [3, 4, 5], wantLogits: 'last' }]);
        }
        expect(logits).toEqual(expected);
      }),
      { numRuns: 5 },
    );
  });

  it('gives the same logits over contiguous and scattered blocks', async () => {
    const backend = await backendOf(options);
    const contiguous = await logitsOf(backend, [whole(tokens, [0, 1, 2])]);
    expect(await logitsOf(backend, [whole(tokens, [17, 3, 9])])).toEqual(contiguous);
  });

  it('gives a sequence the same logits alone and among others', async () => {
    const backend = await backendOf(options);
    const alone = await logitsOf(backend, [whole(tokens, [0, 1, 2])]);
    const others = [randomTokens(5, 131, 2), randomTokens(40, 131, 3)] as const;
    const together = await logitsOf(backend, [
      { ...whole(others[0], [20]), wantLogits: 'none' },
      whole(tokens, [7, 5, 6]),
      whole(others[1], [11, 10]),
    ]);
    expect(together.subarray(0, 131)).toEqual(alone);
  });

  it('reads blocks that several sequences share, each writing into its own', async () => {
    const backend = await backendOf(options);
    const first = tokens.slice(0, 32);
    await logitsOf(backend, [whole(first, [0])]);
    const forked = await logitsOf(backend, [
      { tokens: [7, 8], start: 32, blocks: [0, 1], wantLogits: 'last' },
      { tokens: [9], start: 32, blocks: [0, 2], wantLogits: 'last' },
    ]);
    expect(forked.subarray(0, 131)).toEqual(await logitsOf(backend, [whole([...first, 7, 8], [4, 5])]));
    expect(forked.subarray(131)).toEqual(await logitsOf(backend, [whole([...first, 9], [4, 5])]));
  });
});

describe('the reference backend', () => {
  it('lets a window hide what lies before it, and nothing within', async () => {
    const backend = await backendOf({ layerCount: 1, window: 6 });
    const tokens = randomTokens(20, 131);
    const changed = (position: number) =>
      tokens.map((token, at) => (at === position ? (token + 1) % 131 : token));
    const logits = await logitsOf(backend, [whole(tokens, [0])]);
    expect(await logitsOf(backend, [whole(changed(13), [1])])).toEqual(logits);
    expect(await logitsOf(backend, [whole(changed(14), [1])])).not.toEqual(logits);
  });

  it('never lets a token see a later one', async () => {
    const backend = await backendOf({});
    const tokens = randomTokens(40, 131);
    const all = await logitsOf(backend, [{ ...whole(tokens, [0, 1]), wantLogits: 'all' }]);
    for (const length of [1, 17, 32, 33]) {
      const prefix = await logitsOf(backend, [whole(tokens.slice(0, length), [2, 3])]);
      expect(prefix).toEqual(all.subarray((length - 1) * 131, length * 131));
    }
  });

  it('bounds attention scores by the soft cap and leaves small scores alone', async () => {
    const tokens = randomTokens(30, 131);
    const logits = async (options: TinyModelOptions) =>
      logitsOf(await backendOf(options), [whole(tokens, [0])]);
    const uncapped = await logits({});
    const loose = await logits({ attentionSoftcap: 1e4 });
    const tight = await logits({ attentionSoftcap: 0.1 });
    expect(distance(loose, uncapped)).toBeLessThan(1e-5);
    expect(distance(tight, uncapped)).toBeGreaterThan(1e-2);
  });

  it('keeps logits within the logit cap', async () => {
    const logits = await logitsOf(await backendOf({ logitSoftcap: 0.5 }), [whole([1, 2, 3], [0])]);
    expect(Math.max(...logits.map(Math.abs))).toBeLessThanOrEqual(0.5);
  });

  it.each(Object.keys(tensorLayouts) as TensorType[])(
    'computes finite, varied logits from %s',
    async (type) => {
      const backend = await backendOf({ type, hiddenSize: 256, headSize: 64, ffnSize: 256, layerCount: 1 });
      const logits = await logitsOf(backend, [whole(randomTokens(9, 131), [0])]);
      expect(logits.every(Number.isFinite)).toBe(true);
      expect(new Set(logits).size).toBeGreaterThan(100);
      expect(Math.max(...logits)).toBeLessThan(100);
    },
  );

  it('reports loading from start to end, and refuses to run once closed', async () => {
    const { spec, weights } = tinyModel();
    const shares: number[] = [];
    const onProgress = (share: number) => shares.push(share);
    const backend = await createReferenceBackend(spec, weights, { blockCount: 1, onProgress });
    expect(shares).toEqual([...shares].sort((a, b) => a - b));
    expect(shares.at(-1)).toBe(1);
    backend.close();
    await expect(backend.step(buildBatch([whole([1], [0])]))).rejects.toThrow('closed');
  });
});

function distance(left: Float32Array, right: Float32Array): number {
  return Math.max(...left.map((value, index) => Math.abs(value - (right[index] as number))));
}
