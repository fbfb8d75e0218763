// Which experts a step reads, and which it must leave alone.

import { describe, expect, it } from 'vitest';
import { addon, hasAddon } from '../../../test/support/native.ts';
import { randomTokens, type TinyModel, tinyModel } from '../../../test/support/tiny-model.ts';
import type { WeightSource } from '../../weights/weight-source.ts';
import { buildBatch } from '../batch.ts';
import { createReferenceBackend } from '../reference/backend.ts';
import { createCpuBackend } from './backend.ts';

const COUNT = 6;
const USED = 2;
const SIZE = 24;
const model = tinyModel({
  layerCount: 1,
  experts: {
    count: COUNT,
    size: SIZE,
    router: { score: 'softmax', used: USED, normalized: true, scale: 1 },
  },
});
const tokens = randomTokens(20, model.spec.vocabSize);
const batch = buildBatch([{ tokens, start: 0, blocks: [0], wantLogits: 'all' }]);

/** Some floats of a tensor are replaced, by their row. */
function changed(
  weights: WeightSource,
  tensor: string,
  change: (value: number, row: number) => number,
): WeightSource {
  return {
    ...weights,
    readRows(name, first, count, into) {
      weights.readRows(name, first, count, into);
      if (name !== tensor) return;
      const floats = new Float32Array(into.buffer, into.byteOffset, into.length / 4);
      const columns = floats.length / count;
      for (const [index, value] of floats.entries()) {
        floats[index] = change(value, first + Math.floor(index / columns));
      }
    },
  };
}

async function logitsOf({ spec, weights }: TinyModel): Promise<Float32Array> {
  const backend = await createCpuBackend(addon(), spec, weights, { blockCount: 1 });
  const { logits } = await backend.step(batch);
  backend.close();
  return logits.slice();
}

describe.skipIf(!hasAddon)('experts of the cpu backend (skipped where the addon is not built)', () => {
  it('are the lower ones where all are wanted alike, and no other is read', async () => {
    const undecided = changed(model.weights, 'layers.0.router', () => 0);
    const expected = await logitsOf({ spec: model.spec, weights: undecided });
    // One value that is read makes a row NaN.
    const poisoned = ['gate', 'up'].reduce(
      (weights, part) =>
        changed(weights, `layers.0.experts.${part}`, (value, row) =>
          row < USED * SIZE ? value : Number.NaN,
        ),
      undecided,
    );
    expect(await logitsOf({ spec: model.spec, weights: poisoned })).toEqual(expected);
    const reference = await createReferenceBackend(model.spec, undecided, { blockCount: 1 });
    const { logits } = await reference.step(batch);
    const difference = logits.map((value, index) => Math.abs(value - (expected[index] as number)));
    expect(Math.max(...difference)).toBeLessThan(0.01);
  });

  it('give a long step the bits of short ones', async () => {
    const { spec, weights } = tinyModel({
      contextLength: 1024,
      experts: {
        count: 16,
        size: SIZE,
        router: { score: 'sigmoid', used: 3, normalized: true, scale: 1 },
      },
    });
    const long = randomTokens(600, spec.vocabSize);
    const blocks = Array.from({ length: 19 }, (_, block) => block);
    const backend = await createCpuBackend(addon(), spec, weights, { blockCount: 19 });
    const compute = async (start: number, end: number) =>
      (
        await backend.step(buildBatch([{ tokens: long.slice(start, end), start, blocks, wantLogits: 'all' }]))
      ).logits.slice();
    const whole = await compute(0, 600);
    for (const start of [0, 200, 400]) {
      const rows = whole.slice(start * spec.vocabSize, (start + 200) * spec.vocabSize);
      expect(await compute(start, start + 200)).toEqual(rows);
    }
    backend.close();
  });

  it('carry NaN on where the router gives nothing else', async () => {
    const weights = changed(model.weights, 'layers.0.router', () => Number.NaN);
    expect((await logitsOf({ spec: model.spec, weights })).some(Number.isFinite)).toBe(false);
  });

  it('refuse to be stored in different types', async () => {
    const tensors = new Map(model.weights.tensors);
    const [layer] = model.spec.layers;
    const branch = layer?.branches[1];
    const part = branch?.parts[0];
    if (part?.body.kind !== 'moe') throw new Error('the second branch has no experts');
    tensors.set('half', { name: 'half', type: 'F16', shape: [SIZE, model.spec.hiddenSize] });
    const odd = part.body.experts.map((expert, index) =>
      index === 3
        ? { ...expert, up: { ...expert.up, weight: { ...expert.up.weight, tensor: 'half' } } }
        : expert,
    );
    const spec = {
      ...model.spec,
      layers: [{ branches: [{ parts: [{ ...part, body: { ...part.body, experts: odd } }] }] }],
    };
    await expect(logitsOf({ spec, weights: { ...model.weights, tensors } })).rejects.toThrow(
      'half: is F16, and the same matrix of another expert is F32',
    );
  });
});
