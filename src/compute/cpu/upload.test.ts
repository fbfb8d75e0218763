// Loading in pieces: matrices larger than one piece arrive whole, whatever happens on the way.

import { describe, expect, it } from 'vitest';
import { addon, hasAddon } from '../../../test/support/native.ts';
import { randomTokens, type TinyModel, tinyModel } from '../../../test/support/tiny-model.ts';
import type { WeightSource } from '../../weights/weight-source.ts';
import type { Backend } from '../backend.ts';
import { buildBatch } from '../batch.ts';
import { createReferenceBackend } from '../reference/backend.ts';
import { createCpuBackend } from './backend.ts';

// Embedding and head take 14 MB each, several pieces; the last panel of the last one is not full.
const model = tinyModel({ vocabSize: 14003, hiddenSize: 256, headSize: 64, interleaved: true });
const tokens = [...randomTokens(20, 14003, 1), 14002];

async function logitsOf(backend: Backend): Promise<Float32Array> {
  const { logits } = await backend.step(buildBatch([{ tokens, start: 0, blocks: [0], wantLogits: 'last' }]));
  backend.close();
  return logits.slice();
}

const load = (
  { spec, weights }: TinyModel,
  onProgress: (share: number) => void = () => {},
): Promise<Backend> => createCpuBackend(addon(), spec, weights, { blockCount: 1, onProgress });

/** Weights whose every read goes through `before` first. */
function watched(weights: WeightSource, before: (tensor: string, first: number) => void): WeightSource {
  return {
    ...weights,
    readRows(name, first, count, into) {
      before(name, first);
      weights.readRows(name, first, count, into);
    },
  };
}

describe.skipIf(!hasAddon)('loading a model (skipped where the addon is not built)', () => {
  it('brings every piece of a matrix to its place', async () => {
    const actual = await logitsOf(await load(model));
    const { spec, weights } = model;
    const expected = await logitsOf(await createReferenceBackend(spec, weights, { blockCount: 1 }));
    const largest = expected.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    expect(actual).toHaveLength(14003);
    for (const [index, value] of expected.entries()) {
      // K and V are rounded to 16 bits; a row out of place is another number altogether.
      expect(Math.abs((actual[index] as number) - value)).toBeLessThan(largest * 1e-3);
    }
  });

  it('lets the event loop turn between pieces and says how far it is', async () => {
    const shares: number[] = [];
    let turns = 0;
    let loading = true;
    const turn = () => {
      turns++;
      if (loading) setImmediate(turn);
    };
    setImmediate(turn);
    const backend = await load(model, (share) => shares.push(share));
    loading = false;
    backend.close();
    expect(shares.length).toBeGreaterThan(8);
    expect(turns).toBeGreaterThanOrEqual(shares.length - 1);
    expect(shares).toEqual([...shares].sort((a, b) => a - b));
    expect(shares.at(-1)).toBe(1);
  });

  it('gives the error of a read that fails while an earlier piece is being packed', async () => {
    const weights = watched(model.weights, (tensor, first) => {
      if (tensor === 'embedding' && first > 0) throw new Error('the disk is gone');
    });
    await expect(load({ spec: model.spec, weights })).rejects.toThrow('the disk is gone');
    // The addon is none the worse for it.
    expect((await logitsOf(await load(model))).every(Number.isFinite)).toBe(true);
  });

  it('refuses a tensor with an infinite scale by its name', async () => {
    const quantized = tinyModel({ type: 'Q8_0', hiddenSize: 64, headSize: 32, ffnSize: 96 });
    const damaged: WeightSource = {
      ...quantized.weights,
      readRows(name, first, count, into) {
        quantized.weights.readRows(name, first, count, into);
        if (name === 'layers.1.down') new DataView(into.buffer, into.byteOffset).setUint16(34, 0x7c00, true);
      },
    };
    await expect(load({ spec: quantized.spec, weights: damaged })).rejects.toThrow(
      'weights: layers.1.down: a scale or minimum is not finite',
    );
    (await load(quantized)).close();
  });

  it('reads every row of a matrix once', async () => {
    const reads: string[] = [];
    const weights = watched(model.weights, (tensor, first) => reads.push(`${tensor}:${first}`));
    (await load({ spec: model.spec, weights })).close();
    expect(reads.filter((read) => read.startsWith('embedding')).length).toBeGreaterThan(2);
    expect(new Set(reads).size).toBe(reads.length);
  });
});
