// The first promise of all, from a request to its tokens: who else is in the batch changes nothing.

import { expect, it } from 'vitest';
import { selfTest } from '../../src/compute/self-test.ts';
import { LocalEngine } from '../../src/engine/local-engine.ts';
import { collect, engineRequest, type TestRequest } from '../support/engine-requests.ts';
import { sharedGpu } from '../support/gpu-backend.ts';
import { describeOnFastestGpu } from '../support/on-gpu.ts';
import { randomTokens, tinyModel } from '../support/tiny-model.ts';

const SEEDS = 20;
const OTHERS = 32;
const TOKENS = 5;

/** Small in all respects: SwiftShader takes a hundredth of a second for each row of a step. */
const { spec, weights } = tinyModel({
  layerCount: 1,
  hiddenSize: 32,
  headSize: 16,
  ffnSize: 32,
  vocabSize: 64,
});
const { vocabSize, contextLength } = spec;

/** Every third one is greedy; one reaches into a second segment of attention while it is answered. */
const requests = Array.from(
  { length: OTHERS + 1 },
  (_, seed): TestRequest => ({
    prompt: randomTokens(seed === 1 ? 62 : 1 + (seed % 6), vocabSize, seed + 1),
    sampling: { temperature: seed % 3 === 0 ? 0 : 1, seed, maxTokens: TOKENS },
  }),
);

describeOnFastestGpu('a request to an engine on a GPU', () => {
  const backends = sharedGpu();

  it('passes the self-test of a start', async () => {
    const backend = await backends.create(spec, weights, { blockCount: 32 });
    expect(await selfTest(backend, vocabSize)).toBeUndefined();
  });

  it(`samples the same tokens alone and among ${OTHERS} others, for ${SEEDS} seeds`, async () => {
    const blockCount = 64;
    const backend = await backends.create(spec, weights, { blockCount });
    // Fewer than there are requests: prompts are cut, and share steps with answers.
    const budget = { kind: 'fixed', maxStepTokens: 24 } as const;
    const engine = new LocalEngine(backend, { blockCount, budget, vocabSize, contextLength, endIds: [] });
    // Another salt: nothing is taken from what was computed for the same prompt before.
    const ask = async (request: TestRequest, salt: string): Promise<number[]> =>
      (await collect(engine.submit(engineRequest({ ...request, salt }, vocabSize)))).tokens;
    try {
      const alone: number[][] = [];
      for (const request of requests.slice(0, SEEDS)) alone.push(await ask(request, 'alone'));
      expect(alone.every(({ length }) => length === TOKENS)).toBe(true);
      const together = await Promise.all(requests.map((request) => ask(request, 'together')));
      expect(together.slice(0, SEEDS)).toEqual(alone);
    } finally {
      await engine.close();
    }
  });
});
