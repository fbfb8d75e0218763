// A text's vector never depends on its neighbours: the same bits alone, beside answers, in chunks, after a prefix hit, after
// preemption, and after the engine process was killed.

import { beforeAll, describe, expect, it } from 'vitest';
import type { EngineClient } from '../../src/engine/engine-client.ts';
import type { LocalEngine } from '../../src/engine/local-engine.ts';
import type { Pooling } from '../../src/model/pooling.ts';
import { SupervisedEngine } from '../../src/pool/supervised-engine.ts';
import { chatIds, embeddedEndIds, embeddedSpec, withEngine } from '../support/embedded-engine.ts';
import { embeddedModelPath } from '../support/embedded-model.ts';
import { collect, embedRequest, engineRequest } from '../support/engine-requests.ts';
import { randomTokens } from '../support/tiny-model.ts';

const { hiddenSize, vocabSize, contextLength } = embeddedSpec;
const prompt = Int32Array.from([
  ...chatIds('What is the capital of Norway?'),
  ...randomTokens(200, vocabSize),
]);
const poolings: readonly Pooling[] = ['mean', 'last', 'cls'];

async function embed(
  engine: Pick<EngineClient, 'submit'>,
  pooling: Pooling,
  options = {},
  tokens: ArrayLike<number> = prompt,
) {
  const { finish, tokens: answer } = await collect(engine.submit(embedRequest(tokens, pooling, options)));
  expect(answer).toEqual([]);
  return finish;
}

function talk(engine: LocalEngine, text: string, maxTokens: number) {
  const sampling = { ignoreEos: true, maxTokens };
  return collect(engine.submit(engineRequest({ prompt: chatIds(text), sampling })));
}

describe.each(poolings)('a vector is the same bits, %s', (pooling) => {
  let expected: Float32Array | undefined;
  beforeAll(async () => {
    const finish = await withEngine({}, (engine) => embed(engine, pooling));
    expect(finish).toMatchObject({ reason: 'stop', promptTokens: prompt.length, generatedTokens: 0 });
    expected = finish.vector;
    expect(expected?.length).toBe(hiddenSize);
  });

  it('beside answers, in the same steps', async () => {
    await withEngine({}, async (engine) => {
      const answers = ['Hello', 'What is 3 + 4?', 'Tell me a story.'].map((text) => talk(engine, text, 40));
      expect((await embed(engine, pooling)).vector).toEqual(expected);
      for (const { tokens } of await Promise.all(answers)) expect(tokens.length).toBe(40);
      const stats = await engine.stats();
      expect(stats.forwardPasses).toBe(stats.steps);
      expect(stats.steps).toBeLessThan(50);
    });
  });

  it.each([1, 7, 33])('in chunks of at most %i tokens', async (maxStepTokens) => {
    const options = { budget: { kind: 'fixed', maxStepTokens } } as const;
    expect((await withEngine(options, (engine) => embed(engine, pooling))).vector).toEqual(expected);
  });

  it('the second time, and takes from the cache what it need not compute', async () => {
    await withEngine({}, async (engine) => {
      await embed(engine, pooling);
      const again = await embed(engine, pooling);
      expect(again.vector).toEqual(expected);
      expect(again.cachedTokens).toBe(pooling === 'last' ? 32 * Math.floor((prompt.length - 1) / 32) : 0);
    });
  });

  it('after preemption, again and again', async () => {
    const options = { budget: { kind: 'fixed', maxStepTokens: 24 } } as const;
    await withEngine(options, async (engine) => {
      const { scheduler } = engine.engine;
      const answer = talk(engine, 'Hello', 60);
      const step = () => {
        const text = scheduler.running.find(({ pooled }) => pooled !== undefined);
        if (text !== undefined && text.computed >= 48 * (text.preemptions + 1)) scheduler.preempt(text);
      };
      engine.monitor.subscribe({ step });
      expect((await embed(engine, pooling)).vector).toEqual(expected);
      await answer;
      // One row is all that the shortest needs.
      if (pooling !== 'cls') expect((await engine.stats()).counters.preemptions).toBeGreaterThan(2);
    });
  });

  it('after the engine process was killed', async () => {
    const engine = new SupervisedEngine({
      modelPath: embeddedModelPath,
      engine: {
        blockCount: 256,
        budget: { kind: 'fixed', maxStepTokens: 4 },
        endIds: embeddedEndIds,
      },
    });
    expect(await engine.start()).toMatchObject({ ok: true });
    try {
      let steps = 0;
      engine.monitor.subscribe({
        step: () => {
          if (++steps === 3) process.kill(engine.pid as number, 'SIGKILL');
        },
      });
      // One more before it, of hundreds of steps: it is under way when the third is heard of, however late that is.
      const first = embed(engine, 'mean', {}, randomTokens(1500, vocabSize, 5));
      expect((await embed(engine, pooling)).vector).toEqual(expected);
      await first;
      expect(engine.restarts).toBe(1);
    } finally {
      await engine.close();
    }
  });
});

describe('an engine that embeds', () => {
  it('takes a prompt as long as the context', async () => {
    await withEngine({ contextLength: 64, blockCount: 2 }, async (engine) => {
      const whole = randomTokens(64, vocabSize);
      expect((await embed(engine, 'mean', {}, whole)).vector?.length).toBe(hiddenSize);
      const more = await embed(engine, 'mean', {}, randomTokens(65, vocabSize));
      expect(more).toMatchObject({ reason: 'error', error: { code: 'too-long' } });
    });
    expect(contextLength).toBeGreaterThan(64);
  });

  it('leaves full blocks to those who ask with the same beginning', async () => {
    await withEngine({}, async (engine) => {
      await embed(engine, 'mean');
      const { finish } = await collect(engine.submit(engineRequest({ prompt, sampling: { maxTokens: 1 } })));
      expect(finish.cachedTokens).toBeGreaterThan(100);
    });
  });

  it('lets go of a text at once when it is cancelled', async () => {
    const options = { budget: { kind: 'fixed', maxStepTokens: 1 } } as const;
    await withEngine(options, async (engine) => {
      const request = embedRequest(prompt, 'mean');
      const events = collect(engine.submit(request));
      engine.cancel(request.id);
      const { finish } = await events;
      expect(finish.reason).toBe('cancelled');
      expect(finish.vector).toBeUndefined();
      expect((await engine.stats()).blocks.used).toBe(0);
    });
  });

  it('tells of states that are not numbers, to the one request alone', async () => {
    const poison = vocabSize - 1;
    await withEngine(
      {},
      async (engine) => {
        const [bad, good] = await Promise.all([
          embed(engine, 'mean', {}, [1, 2, poison, 3]),
          embed(engine, 'mean', {}, chatIds('Hello')),
        ]);
        expect(bad).toMatchObject({ reason: 'error', error: { code: 'numeric-error' } });
        expect(good?.reason).toBe('stop');
      },
      (backend) => ({
        name: backend.name,
        blockCount: backend.blockCount,
        sampleRows: backend.sampleRows,
        releaseBlocks: (blocks) => backend.releaseBlocks(blocks),
        close: () => backend.close(),
        async step(batch) {
          const { logits, states } = await backend.step(batch);
          for (const [index, row] of batch.stateRows.entries()) {
            if (batch.tokens[row] !== poison) continue;
            states.fill(Number.NaN, index * hiddenSize, (index + 1) * hiddenSize);
          }
          return { logits, states };
        },
      }),
    );
  });
});
