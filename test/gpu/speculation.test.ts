// Draft tokens on a GPU, which samples tokens itself where it can: answers are those without draft tokens, however they are sampled.

import { expect, it } from 'vitest';
import { KnownAnswers } from '../../src/bench/offline/simulated-drafter.ts';
import type { Backend } from '../../src/compute/backend.ts';
import type { EngineOptions } from '../../src/engine/engine.ts';
import { LocalEngine } from '../../src/engine/local-engine.ts';
import type { SamplingRequest } from '../../src/sampling/parameters.ts';
import type { OpenBackend } from '../contract/backend-contract.ts';
import { withBackend } from '../contract/running.ts';
import { BLOCKS } from '../support/backend-properties.ts';
import { collect, engineRequest } from '../support/engine-requests.ts';
import { sharedGpu } from '../support/gpu-backend.ts';
import { describeOnFastestGpu } from '../support/on-gpu.ts';
import { randomTokens, type TinyModelOptions, tinyModel } from '../support/tiny-model.ts';

const samplings: readonly SamplingRequest[] = [
  { temperature: 0 },
  { temperature: 1, topP: 0.9, seed: 3 },
  { temperature: 0.8, repetitionPenalty: 1.3, frequencyPenalty: 0.4, logprobs: 2, seed: 4 },
];

describeOnFastestGpu('answers with draft tokens on a GPU', () => {
  const gpu = sharedGpu();
  const open: OpenBackend = ({ spec, weights }) => gpu.create(spec, weights, { blockCount: BLOCKS });

  it.each<[string, TinyModelOptions]>([
    ['in f16', { layerCount: 2, hiddenSize: 64, vocabSize: 200 }],
    ['of 4 bits', { layerCount: 1, hiddenSize: 64, type: 'Q4_0', vocabSize: 200 }],
  ])('are those without, %s', async (_, options) => {
    const model = tinyModel(options);
    const { vocabSize, contextLength } = model.spec;
    const requests = samplings.map((sampling, n) =>
      engineRequest(
        {
          prompt: randomTokens(20 + n, vocabSize, n + 1),
          sampling: { ...sampling, maxTokens: 40, ignoreEos: true },
        },
        vocabSize,
      ),
    );
    await withBackend(open, model, {}, async (backend) => {
      const run = async (how: Partial<EngineOptions>) => {
        const engine = new LocalEngine(lent(backend), {
          blockCount: backend.blockCount,
          budget: { kind: 'fixed', maxStepTokens: 128 },
          vocabSize,
          contextLength,
          endIds: [],
          ...how,
        });
        const answers = [];
        for (const request of requests) answers.push(await collect(engine.submit(request)));
        await engine.close();
        return answers;
      };
      const plain = await run({ speculation: false });
      const known = new KnownAnswers(0.8);
      for (const [n, { prompt }] of requests.entries()) known.learn(prompt, plain[n]?.tokens ?? []);
      const speculative = await run({
        newDrafter: ({ prompt }, tokens) => known.drafter(prompt, tokens.length - prompt.length),
      });
      expect(speculative.map(({ tokens, logprobs }) => ({ tokens, logprobs }))).toEqual(
        plain.map(({ tokens, logprobs }) => ({ tokens, logprobs })),
      );
      expect(speculative.some(({ finish }) => (finish.draftTokens?.accepted ?? 0) > 5)).toBe(true);
    });
  });
});

/** An engine closes its backend; this one is needed again. */
function lent(backend: Backend): Backend {
  return {
    name: backend.name,
    blockCount: backend.blockCount,
    step: (batch, rows) => backend.step(batch, rows),
    sampleRows: (logits, vocabSize, rows) => backend.sampleRows(logits, vocabSize, rows),
    releaseBlocks: (blocks) => backend.releaseBlocks(blocks),
    close: () => {},
  };
}
