// Final states on a GPU, and the vectors an engine makes of them.

import { expect, it } from 'vitest';
import { LocalEngine } from '../../src/engine/local-engine.ts';
import type { Pooling } from '../../src/model/pooling.ts';
import { collect, embedRequest, engineRequest } from '../support/engine-requests.ts';
import { sharedGpu } from '../support/gpu-backend.ts';
import { describeOnFastestGpu } from '../support/on-gpu.ts';
import { randomTokens, tinyModel } from '../support/tiny-model.ts';

const poolings: readonly Pooling[] = ['mean', 'last', 'cls'];

describeOnFastestGpu('states on a GPU', () => {
  const backends = sharedGpu();

  it('make the same vectors alone and in chunks among requests that are answered', async () => {
    const { spec, weights } = tinyModel({
      layerCount: 1,
      hiddenSize: 32,
      headSize: 16,
      ffnSize: 32,
      vocabSize: 64,
    });
    const { vocabSize, contextLength } = spec;
    const blockCount = 64;
    const backend = await backends.create(spec, weights, { blockCount });
    const budget = { kind: 'fixed', maxStepTokens: 24 } as const;
    const engine = new LocalEngine(backend, { blockCount, budget, vocabSize, contextLength, endIds: [] });
    const prompt = randomTokens(40, vocabSize, 3);
    const embed = async (pooling: Pooling, salt: string) =>
      (await collect(engine.submit(embedRequest(prompt, pooling, { salt })))).finish.vector;
    try {
      const alone: (Float32Array | undefined)[] = [];
      for (const pooling of poolings) alone.push(await embed(pooling, pooling));
      const answers = Array.from({ length: 6 }, (_, seed) => {
        const sampling = { temperature: seed % 2, seed, maxTokens: 5 };
        const request = { prompt: randomTokens(3 + seed, vocabSize, seed), sampling };
        return collect(engine.submit(engineRequest(request, vocabSize)));
      });
      const together = await Promise.all(poolings.map((pooling) => embed(pooling, `${pooling} again`)));
      await Promise.all(answers);
      expect(together).toEqual(alone);
      for (const vector of alone) expect(vector?.length).toBe(spec.hiddenSize);
    } finally {
      await engine.close();
    }
  });
});
