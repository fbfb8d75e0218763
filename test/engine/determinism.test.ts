// A request's tokens never depend on its neighbours: the same alone, in a batch, in chunks, after a prefix hit,
// after preemption, beside cancellations, and after the engine process was killed.

import { beforeAll, describe, expect, it } from 'vitest';
import { SupervisedEngine } from '../../src/pool/supervised-engine.ts';
import type { SamplingRequest } from '../../src/sampling/parameters.ts';
import { chatIds as chat, embeddedEndIds, withEngine } from '../support/embedded-engine.ts';
import { embeddedModelPath } from '../support/embedded-model.ts';
import { collect, engineRequest, type TestRequest } from '../support/engine-requests.ts';

const story = 'Tell me a story about a fox named Mila in a forest.';
const neighbours = Array.from(
  { length: 31 },
  (_, index) => `What is ${index * 17} + ${index * 5 + 3}? And tell me about day ${index}.`,
);

const samplings: readonly (readonly [name: string, sampling: SamplingRequest])[] = [
  ['greedy', { temperature: 0, maxTokens: 60 }],
  ['seeded', { temperature: 0.9, topP: 0.95, repetitionPenalty: 1.1, seed: 42, maxTokens: 60 }],
  ['by mirostat', { temperature: 0.9, mirostat: 2, mirostatTau: 4, seed: 42, maxTokens: 60 }],
  [
    'by a chain of samplers',
    {
      temperature: 0.9,
      xtcProbability: 0.4,
      xtcThreshold: 0.05,
      dryMultiplier: 0.8,
      topNSigma: 2,
      repetitionPenalty: 1.05,
      repeatLastN: 20,
      samplers: 'edskypmxt',
      seed: 9,
      maxTokens: 60,
    },
  ],
];

/** Of those that are held to be the same. */
const LEAST_TOKENS = 40;

const one = (sampling: SamplingRequest): TestRequest => ({ prompt: chat(story), sampling });

async function alone(sampling: SamplingRequest): Promise<number[]> {
  const { tokens } = await withEngine({}, (engine) => collect(engine.submit(engineRequest(one(sampling)))));
  return tokens;
}

it('tokens are the same bits in a batch of 32, each sampled in a way of its own', async () => {
  const expected = await Promise.all(samplings.map(([, sampling]) => alone(sampling)));
  for (const { length } of expected) expect(length).toBeGreaterThan(LEAST_TOKENS);
  await withEngine({}, async (engine) => {
    const others = neighbours.slice(samplings.length - 1).map((text, index) => {
      const [, sampling] = samplings[index % samplings.length] as (typeof samplings)[number];
      const request = { prompt: chat(text), sampling: { ...sampling, seed: text.length } };
      return collect(engine.submit(engineRequest(request)));
    });
    const asked = samplings.map(([, sampling]) => collect(engine.submit(engineRequest(one(sampling)))));
    expect((await Promise.all(asked)).map(({ tokens }) => tokens)).toEqual(expected);
    await Promise.all(others);
    const stats = await engine.stats();
    expect(stats.forwardPasses).toBe(stats.steps);
  });
});

it('tokens are the same bits after the engine process was killed mid-generation, again and again', async () => {
  const expected = await Promise.all(samplings.map(([, sampling]) => alone(sampling)));
  const engine = new SupervisedEngine({
    modelPath: embeddedModelPath,
    engine: {
      blockCount: 512,
      budget: { kind: 'fixed', maxStepTokens: 256 },
      endIds: embeddedEndIds,
    },
  });
  expect(await engine.start()).toMatchObject({ ok: true });
  try {
    const others = neighbours.slice(0, 4).map((text, index) => {
      const [, sampling] = samplings[index] as (typeof samplings)[number];
      return collect(engine.submit(engineRequest({ prompt: chat(text), sampling })));
    });
    const asked = samplings
      .slice(1)
      .map(([, sampling]) => collect(engine.submit(engineRequest(one(sampling)))));
    const tokens: number[] = [];
    for await (const event of engine.submit(engineRequest(one(samplings[0]?.[1] as SamplingRequest)))) {
      if (event.kind !== 'token') continue;
      tokens.push(event.token);
      if (tokens.length === 5 || tokens.length === 25) process.kill(engine.pid as number, 'SIGKILL');
    }
    const answers = await Promise.all(asked);
    expect([tokens, ...answers.map((answer) => answer.tokens)]).toEqual(expected);
    // A fast engine may have sent the rest of the answer before the second signal reached it.
    expect(engine.restarts).toBeGreaterThan(0);
    for (const { finish } of await Promise.all(others)) expect(finish.reason).toMatch(/stop|length/);
  } finally {
    await engine.close();
  }
});

describe.each(samplings)('tokens are the same bits, %s', (_, sampling) => {
  let expected: number[];
  beforeAll(async () => {
    expected = await alone(sampling);
    expect(expected.length).toBeGreaterThan(LEAST_TOKENS);
  });

  it('joined mid-stream, while others come and are cancelled', async () => {
    const tokens = await withEngine({}, async (engine) => {
      const first = engine.submit(
        engineRequest({
          prompt: chat(neighbours[0] as string),
          sampling: { ...sampling, ignoreEos: true, maxTokens: 300 },
        }),
      );
      for (let read = 0; read < 5; read++) await first.next();
      const cancelled = neighbours.slice(1, 9).map(async (text) => {
        const stream = engine.submit(engineRequest({ prompt: chat(text), sampling }));
        await stream.next();
        await stream.return();
      });
      const answer = await collect(engine.submit(engineRequest(one(sampling))));
      await Promise.all(cancelled);
      await first.return();
      return answer.tokens;
    });
    expect(tokens).toEqual(expected);
  });

  it.each([1, 3, 7])('with its prompt in chunks of at most %i tokens', async (maxStepTokens) => {
    const options = { budget: { kind: 'fixed', maxStepTokens } } as const;
    const { tokens } = await withEngine(options, (engine) =>
      collect(engine.submit(engineRequest(one(sampling)))),
    );
    expect(tokens).toEqual(expected);
  });

  it('after a prefix hit', async () => {
    const long = {
      ...one(sampling),
      prompt: Int32Array.from([...chat(neighbours.slice(0, 4).join(' ')), ...chat(story)]),
    };
    const [cold, warm] = await withEngine({}, async (engine) => [
      await collect(engine.submit(engineRequest(long))),
      await collect(engine.submit(engineRequest(long))),
    ]);
    expect(cold?.finish.cachedTokens).toBe(0);
    expect(warm?.finish.cachedTokens).toBeGreaterThanOrEqual(64);
    expect(warm?.tokens).toEqual(cold?.tokens);
  });

  it('after forced preemption', async () => {
    const { answer, preemptions } = await withEngine({ blockCount: 10 }, async (engine) => {
      const sampled = { ...sampling, ignoreEos: true, maxTokens: 150 };
      // The one under test comes last, so it is the first to be preempted.
      const others = neighbours
        .slice(0, 3)
        .map((text) => collect(engine.submit(engineRequest({ prompt: chat(text), sampling: sampled }))));
      const answer = await collect(engine.submit(engineRequest({ ...one(sampling), priority: 2 })));
      await Promise.all(others);
      const { counters } = await engine.stats();
      return { answer, preemptions: counters.preemptions };
    });
    expect(preemptions).toBeGreaterThan(0);
    expect(answer.tokens).toEqual(expected);
  });
});
