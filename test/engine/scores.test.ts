// A prompt's likelihoods are those of the reference backend's own logits, whatever the chunks, the cache and the neighbours.

import { describe, expect, it } from 'vitest';
import { type Backend, BLOCK_TOKENS } from '../../src/compute/backend.ts';
import { buildBatch } from '../../src/compute/batch.ts';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import type { FinishEvent, Logprobs } from '../../src/engine/request.ts';
import { openLocalModel } from '../../src/pool/local-model.ts';
import { chatIds, withEngine } from '../support/embedded-engine.ts';
import { embeddedModelPath } from '../support/embedded-model.ts';
import { collect, engineRequest, scoreRequest } from '../support/engine-requests.ts';

const text = chatIds(`Tell me a story about a fox. ${'It lived in a forest by a river. '.repeat(30)}`);

const model = openLocalModel(embeddedModelPath);

function referenceBackend(blockCount: number): Promise<Backend> {
  return createReferenceBackend(model.spec, model.files.weights, { blockCount });
}

/** Log-softmax in double precision, of logits that the reference backend computes in one go. */
async function logSoftmax(tokens: ArrayLike<number>): Promise<{ logprob: number; rank: number }[]> {
  const ids = Array.from(tokens);
  const blockCount = Math.ceil(ids.length / BLOCK_TOKENS);
  const backend = await referenceBackend(blockCount);
  const blocks = Array.from({ length: blockCount }, (_, block) => block);
  const { logits } = await backend.step(buildBatch([{ tokens: ids, start: 0, blocks, wantLogits: 'all' }]));
  const { vocabSize } = model.spec;
  const scores = ids.slice(1).map((token, at) => {
    const row = logits.subarray(at * vocabSize, (at + 1) * vocabSize);
    const highest = Math.max(...row);
    const total = row.reduce((sum, logit) => sum + Math.exp(logit - highest), 0);
    const own = row[token] as number;
    return {
      logprob: own - highest - Math.log(total),
      rank: 1 + row.filter((logit, id) => logit > own || (logit === own && id < token)).length,
    };
  });
  backend.close();
  return scores;
}

const scoresOf = ({ scores }: FinishEvent) => scores as readonly Logprobs[];

describe('the scores of a prompt', () => {
  it('are the log-softmax of the reference backend’s logits', async () => {
    // Beyond a block, and beyond what is scored at a time: the reference backend takes a tenth of a second for a token.
    const tokens = text.slice(0, 40);
    const expected = await logSoftmax(tokens);
    const backend = await referenceBackend(16);
    const { finish } = await withEngine(
      { blockCount: 16, scoredTokens: 16 },
      (engine) => collect(engine.submit(scoreRequest(tokens, 5))),
      () => backend,
    );
    const scores = scoresOf(finish);
    expect(scores.length).toBe(tokens.length - 1);
    for (const [at, { logprob, rank, top }] of scores.entries()) {
      expect(logprob).toBeCloseTo(expected[at]?.logprob as number, 4);
      expect(rank).toBe(expected[at]?.rank);
      expect(top.length).toBe(5);
      if ((rank as number) <= 5) expect(top[(rank as number) - 1]?.token).toBe(tokens[at + 1]);
      expect(top.map((one) => one.logprob)).toEqual(top.map((one) => one.logprob).sort((a, b) => b - a));
    }
  });

  it('are the same bits after a prefix hit, in small chunks, and beside others', async () => {
    const alone = await withEngine({}, (engine) => collect(engine.submit(scoreRequest(text, 3))));
    expect(scoresOf(alone.finish).length).toBe(text.length - 1);
    const [warm, again, short] = await withEngine({ scoredTokens: 32 }, async (engine) => {
      await collect(engine.submit(engineRequest({ prompt: text, sampling: { maxTokens: 3 } })));
      const others = [3, 5, 8].map((n) =>
        collect(engine.submit(engineRequest({ prompt: text.slice(n), sampling: { maxTokens: 40 } }))),
      );
      const both = await Promise.all([
        collect(engine.submit(scoreRequest(text, 3))),
        collect(engine.submit(scoreRequest(text, 3))),
        collect(engine.submit(scoreRequest(text.slice(0, 1), 3))),
      ]);
      await Promise.all(others);
      return both;
    });
    expect(scoresOf(warm.finish)).toEqual(scoresOf(alone.finish));
    expect(scoresOf(again.finish)).toEqual(scoresOf(alone.finish));
    // Nothing comes before a single token.
    expect(scoresOf(short.finish)).toEqual([]);
    expect(warm.tokens).toEqual([]);
    expect(warm.finish).toMatchObject({ reason: 'stop', promptTokens: text.length, generatedTokens: 0 });
  });

  it('leave their KV blocks to the answer that follows', async () => {
    await withEngine({}, async (engine) => {
      await collect(engine.submit(scoreRequest(text, 0)));
      const { finish } = await collect(
        engine.submit(engineRequest({ prompt: text, sampling: { maxTokens: 2 } })),
      );
      expect(finish.cachedTokens).toBeGreaterThan(text.length - 2 * BLOCK_TOKENS);
    });
  });
});
