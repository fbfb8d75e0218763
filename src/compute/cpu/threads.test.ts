import { describe, expect, it } from 'vitest';
import { hasAddon } from '../../../test/support/native.ts';
import { randomTokens, tinyModel } from '../../../test/support/tiny-model.ts';
import { buildBatch } from '../batch.ts';
import { chooseBackend } from '../choose-backend.ts';

describe.skipIf(!hasAddon)('a backend whose number of threads changes (with the addon)', () => {
  it('computes the same', async () => {
    const { spec, weights } = tinyModel({ hiddenSize: 128, ffnSize: 256, layerCount: 3 });
    const backend = await chooseBackend('cpu', { threads: 4 }).create(spec, weights, { blockCount: 4 });
    const tokens = randomTokens(60, spec.vocabSize);
    const batch = buildBatch([{ tokens, start: 0, blocks: [0, 1], wantLogits: 'last' }]);
    const compute = async () => Array.from((await backend.step(batch)).logits);
    const expected = await compute();
    for (const threads of [1, 3, 1, 4, 2, 99, 0, 4]) {
      backend.useThreads?.(threads);
      for (let step = 0; step < 20; step++) expect(await compute()).toEqual(expected);
    }
    backend.useThreads?.(1);
    await compute();
    // Those who rest are woken to end.
    backend.close();
  });
});
