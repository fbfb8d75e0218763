// Steps that are prepared while others are computed give what they would give otherwise. On a simulated GPU.

import { describe, expect, it } from 'vitest';
import type { Backend } from '../../src/compute/backend.ts';
import { type BatchSequence, buildBatch } from '../../src/compute/batch.ts';
import { LocalEngine } from '../../src/engine/local-engine.ts';
import type { SamplingRequest } from '../../src/sampling/parameters.ts';
import { collect, engineRequest } from '../support/engine-requests.ts';
import { rowOf } from '../support/sampling-requests.ts';
import { simulatedGpu } from '../support/simulated-gpu.ts';
import { randomTokens, tinyModel } from '../support/tiny-model.ts';

const BLOCKS = 64;
const model = tinyModel({ vocabSize: 300, layerCount: 1, hiddenSize: 32, headSize: 16, ffnSize: 32 });
const { vocabSize } = model.spec;
const gpu = simulatedGpu();

const open = () => gpu.create(model, { blockCount: BLOCKS });

/** The token at `position`, of a text in these blocks. */
const one = (token: number, position: number, blocks: readonly number[]): BatchSequence => ({
  tokens: [token],
  start: position,
  blocks,
  wantLogits: 'last',
});

const greedy = [rowOf({ temperature: 0, logprobs: 3 }, vocabSize)];

/** Its first tokens, and two steps more, so that the shape of such steps is recorded. */
async function begun(blocks: readonly number[]): Promise<Backend> {
  const backend = await open();
  const tokens = randomTokens(29, vocabSize, 5);
  await backend.step(buildBatch([{ tokens, start: 0, blocks, wantLogits: 'none' }]));
  for (const position of [29, 30]) await backend.step(buildBatch([one(7, position, blocks)]), greedy);
  return backend;
}

describe('a step that is prepared', () => {
  it('samples what it would have sampled otherwise, in a block of its own, too', async () => {
    const sampled = async (prepares: boolean) => {
      const backend = await begun([3]);
      const first = backend.step(buildBatch([one(11, 31, [3])]), greedy);
      const next = (token: number) => buildBatch([one(token, 32, [3, 9])]);
      const start = prepares ? backend.prepareStep?.(next(0), greedy) : undefined;
      expect(start !== undefined).toBe(prepares);
      await first;
      const { sampled } = await (start?.(Int32Array.of(17)) ?? backend.step(next(17), greedy));
      const after = await backend.step(buildBatch([one(19, 33, [3, 9])]));
      const logits = after.logits.slice();
      backend.close();
      return { sampled, logits };
    };
    expect(await sampled(true)).toEqual(await sampled(false));
  });

  it('may be left, and another be computed in its place', async () => {
    const logits = async (prepares: boolean) => {
      const backend = await begun([3]);
      const first = backend.step(buildBatch([one(11, 31, [3])]), greedy);
      if (prepares) expect(backend.prepareStep?.(buildBatch([one(0, 32, [3, 9])]), greedy)).toBeDefined();
      await first;
      const result = await backend.step(buildBatch([one(17, 32, [3, 9]), one(5, 0, [20])]));
      const all = result.logits.slice();
      backend.close();
      return all;
    };
    expect(await logits(true)).toEqual(await logits(false));
  });

  it('is begun once, and not after another, nor after blocks have moved', async () => {
    const backend = await begun([3]);
    const prepared = async () => {
      const first = backend.step(buildBatch([one(11, 31, [3])]), greedy);
      const start = backend.prepareStep?.(buildBatch([one(0, 32, [3, 9])]), greedy);
      await first;
      return start as NonNullable<typeof start>;
    };
    const twice = await prepared();
    await twice(Int32Array.of(1));
    await expect(twice(Int32Array.of(1))).rejects.toThrow('no such step is prepared');
    const late = await prepared();
    await backend.step(buildBatch([one(11, 31, [3])]), greedy);
    await expect(late(Int32Array.of(1))).rejects.toThrow('no such step is prepared');
    const moved = await prepared();
    await backend.blockMemory?.fit(50, BLOCKS);
    await expect(moved(Int32Array.of(1))).rejects.toThrow('no such step is prepared');
    await expect((await prepared())(Int32Array.of(vocabSize))).rejects.toThrow('token 300');
    backend.close();
  });

  it('is none where no step is computed, or the next is of a new shape', async () => {
    const backend = await begun([3]);
    const next = buildBatch([one(0, 31, [3])]);
    expect(backend.prepareStep?.(next, greedy)).toBeUndefined();
    const running = backend.step(next, greedy);
    const wide = buildBatch([one(0, 32, [3, 9]), ...[20, 21, 22].map((block) => one(1, 0, [block]))]);
    expect(backend.prepareStep?.(wide, Array(4).fill(greedy[0]))).toBeUndefined();
    await running;
    backend.close();
  });
});

/** While the last one runs, no step can be prepared. */
const samplings: readonly SamplingRequest[] = [
  { maxTokens: 9 },
  { maxTokens: 12, temperature: 1, seed: 5, topP: 0.9 },
  { maxTokens: 16, temperature: 0.8, seed: 6, logprobs: 2 },
  { maxTokens: 3, repetitionPenalty: 1.2 },
];

describe('answers of an engine', () => {
  it('are the same where steps are prepared, while others come, end and are cancelled', async () => {
    const answers = async (prepares: boolean) => {
      const backend = await open();
      let begunSteps = 0;
      const { prepareStep } = Object.getPrototypeOf(backend) as Required<Backend>;
      Object.assign(backend, {
        prepareStep: (...given: Parameters<typeof prepareStep>) => {
          const start = prepares ? prepareStep.apply(backend, given) : undefined;
          return start && ((tokens: Int32Array) => [start(tokens), begunSteps++][0]);
        },
      });
      const engine = new LocalEngine(backend, {
        blockCount: BLOCKS,
        budget: { kind: 'fixed', maxStepTokens: 64 },
        vocabSize,
        contextLength: 400,
        endIds: [2],
        speculation: false,
      });
      const ask = (n: number, sampling: SamplingRequest) =>
        engineRequest({ prompt: randomTokens(3 + 7 * n, vocabSize, n), sampling }, vocabSize);
      const first = samplings.map((sampling, n) => collect(engine.submit(ask(n, sampling))));
      const left = ask(9, { maxTokens: 300 });
      const cancelled = collect(engine.submit(left));
      await first[0];
      engine.cancel(left.id);
      const later = [0, 1].map((n) => collect(engine.submit(ask(n, { maxTokens: 6 }))));
      const all = (await Promise.all([...first, ...later])).map(({ tokens, logprobs }) => ({
        tokens,
        logprobs,
      }));
      await cancelled;
      await engine.close();
      return { all, begunSteps };
    };
    const { all, begunSteps } = await answers(true);
    const without = await answers(false);
    expect(all).toEqual(without.all);
    expect(without.begunSteps).toBe(0);
    expect(begunSteps).toBeGreaterThan(5);
  });
});
