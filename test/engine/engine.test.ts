// What the engine promises, on the embedded model with real compute.

import { describe, expect, it } from 'vitest';
import type { Backend, Batch } from '../../src/compute/backend.ts';
import type { EngineRequest } from '../../src/engine/request.ts';
import type { StepSummary } from '../../src/engine/step-report.ts';
import { chatIds, embeddedSpec, withEngine } from '../support/embedded-engine.ts';
import { type Answer, collect, engineRequest } from '../support/engine-requests.ts';
import { seededRandom } from '../support/random-blocks.ts';
import { randomTokens } from '../support/tiny-model.ts';

const { vocabSize } = embeddedSpec;

/** Records every batch that goes to the backend. */
function recording(batches: Batch[]): (backend: Backend) => Backend {
  return (backend) => ({
    name: backend.name,
    blockCount: backend.blockCount,
    sampleRows: backend.sampleRows,
    step: (batch) => {
      batches.push(batch);
      return backend.step(batch);
    },
    releaseBlocks: (blocks) => backend.releaseBlocks(blocks),
    close: () => backend.close(),
  });
}

const ramble = (maxTokens: number) => ({ ignoreEos: true, maxTokens });

describe('steps', () => {
  it('advance all running sequences by one forward pass over scattered blocks, and leave nothing behind', async () => {
    const batches: Batch[] = [];
    await withEngine(
      { blockCount: 128 },
      async (engine) => {
        const before = await engine.stats();
        const requests = Array.from({ length: 12 }, (_, index) =>
          engineRequest({ prompt: randomTokens(20 + 7 * index, vocabSize, index), sampling: ramble(70) }),
        );
        await Promise.all(requests.map((request) => collect(engine.submit(request))));
        const after = await engine.stats();
        expect(after.forwardPasses).toBe(batches.length);
        expect(after.steps).toBe(batches.length);
        expect(Math.max(...batches.map(({ starts }) => starts.length))).toBe(12);
        const isScattered = ({ blocks, blockStarts }: Batch) =>
          [...blocks].some(
            (block, index) =>
              index > 0 && !blockStarts.includes(index) && block !== (blocks[index - 1] as number) + 1,
          );
        expect(batches.some(isScattered)).toBe(true);
        expect(after.blocks.used).toBe(before.blocks.used);
        expect(after.blocks.used).toBe(0);
        expect(after.running).toEqual([]);
        expect(after.queues.every(({ waiting }) => waiting === 0)).toBe(true);
        expect(after.requests.length).toBe(12);
        expect(after.generatedTokens).toBe(12 * 70);
      },
      recording(batches),
    );
  });

  it('mix prefill chunks with decodes, so that a long prompt stalls nobody for more than a chunk', async () => {
    const batches: Batch[] = [];
    await withEngine(
      { budget: { kind: 'fixed', maxStepTokens: 64 } },
      async (engine) => {
        const first = engine.submit(engineRequest({ prompt: chatIds('Hello'), sampling: ramble(80) }));
        await first.next();
        const long = collect(
          engine.submit(engineRequest({ prompt: randomTokens(1000, vocabSize, 5), sampling: ramble(3) })),
        );
        await collect(first);
        await long;
        // Every step computes the running decode as well, and never more than the budget.
        expect(batches.every(({ tokens }) => tokens.length <= 64)).toBe(true);
        expect(
          batches.filter(({ starts, tokens }) => starts.length === 2 && tokens.length > 2).length,
        ).toBeGreaterThan(14);
      },
      recording(batches),
    );
  });
});

describe('shared prefixes', () => {
  it('of 10 blocks are computed once and held twice while two requests run', async () => {
    const batches: Batch[] = [];
    await withEngine(
      {},
      async (engine) => {
        const prefix = randomTokens(320, vocabSize, 9);
        const submit = (seed: number) =>
          engine.submit(
            engineRequest({ prompt: [...prefix, ...randomTokens(5, vocabSize, seed)], sampling: ramble(40) }),
          );
        const first = submit(1);
        await first.next();
        const computedBefore = (await engine.stats()).counters.computedTokens;
        const second = submit(2);
        await second.next();
        const { tables, running } = engine.engine.scheduler;
        expect(running.length).toBe(2);
        const [one, two] = running;
        expect(two?.blocks.slice(0, 10)).toEqual(one?.blocks.slice(0, 10));
        for (const block of one?.blocks.slice(0, 10) ?? []) expect(tables.pool.references(block)).toBe(2);
        const stats = await engine.stats();
        // The second prompt costs its own 5 tokens; the rest are decodes of the first.
        expect(stats.counters.computedTokens - computedBefore).toBeLessThan(5 + 40);
        const firstRow = batches.find(({ starts }) => starts.includes(320));
        expect(firstRow).toBeDefined();
        const answers = [await collect(first), await collect(second)];
        expect(answers[1]?.finish.cachedTokens).toBe(320);
        const after = await engine.stats();
        expect(after.blocks.used).toBe(0);
        expect(after.blocks.cached).toBeGreaterThanOrEqual(10);
      },
      recording(batches),
    );
  });

  it('are computed once even for two identical prompts that arrive together', async () => {
    const options = { budget: { kind: 'fixed', maxStepTokens: 64 }, speculation: false } as const;
    await withEngine(options, async (engine) => {
      const prompt = randomTokens(200, vocabSize, 3);
      const answers = await Promise.all(
        [1, 2].map(() => collect(engine.submit(engineRequest({ prompt, sampling: ramble(8) })))),
      );
      expect(answers[0]?.tokens).toEqual(answers[1]?.tokens);
      const { counters } = await engine.stats();
      // 200 once, 8 more of the second prompt after its 6 shared blocks, and 7 decodes of each.
      expect(counters.computedTokens).toBe(200 + 8 + 14);
    });
  });

  it('include what was generated: the next turn of a chat hits', async () => {
    await withEngine({}, async (engine) => {
      const prompt = randomTokens(40, vocabSize, 4);
      const { tokens } = await collect(engine.submit(engineRequest({ prompt, sampling: ramble(60) })));
      const next = [...prompt, ...tokens, ...randomTokens(10, vocabSize, 5)];
      const { finish } = await collect(engine.submit(engineRequest({ prompt: next, sampling: ramble(2) })));
      expect(finish.cachedTokens).toBe(96);
    });
  });

  it('are never shared between salts', async () => {
    await withEngine({}, async (engine) => {
      const prompt = randomTokens(100, vocabSize, 6);
      const ask = (salt: string) =>
        collect(engine.submit(engineRequest({ prompt, salt, sampling: ramble(4) })));
      const [first, second, again] = [await ask('a'), await ask('b'), await ask('a')];
      expect(second.finish.cachedTokens).toBe(0);
      expect(again.finish.cachedTokens).toBe(96);
      expect(second.tokens).toEqual(first.tokens);
    });
  });
});

describe('several choices of one prompt', () => {
  it('share its blocks, differ, and are what each would be on its own', async () => {
    const sampling = { temperature: 1, seed: 7, maxTokens: 30 };
    const prompt = [
      ...randomTokens(40, vocabSize, 21),
      ...chatIds('Tell me a story about a bear named Otto.'),
    ];
    const ask = (choice: number) => engineRequest({ prompt, choice, sampling });
    const together = await withEngine({}, async (engine) => {
      const streams = [0, 1, 2].map((choice) => engine.submit(ask(choice)));
      const answers = streams.map(collect);
      while (engine.engine.scheduler.running.length < 3)
        await new Promise((resolve) => setImmediate(resolve));
      const { running } = engine.engine.scheduler;
      expect(new Set(running.map(({ blocks }) => blocks[0])).size).toBe(1);
      return Promise.all(answers);
    });
    expect(together.map(({ finish }) => finish.reason)).toEqual(['length', 'length', 'length']);
    expect(new Set(together.map(({ tokens }) => tokens.join())).size).toBe(3);
    for (const [choice, { tokens }] of together.entries()) {
      const alone = await withEngine({}, (engine) => collect(engine.submit(ask(choice))));
      expect(alone.tokens).toEqual(tokens);
    }
  });

  it('go on where a lost engine had left them', async () => {
    const sampling = { temperature: 1, seed: 7, maxTokens: 30, repetitionPenalty: 1.2 };
    const prompt = chatIds('Tell me a story about a bear named Otto.');
    await withEngine({}, async (engine) => {
      const whole = await collect(engine.submit(engineRequest({ prompt, choice: 2, sampling })));
      const answer = whole.tokens.slice(0, 11);
      const rest = await collect(engine.submit(engineRequest({ prompt, choice: 2, answer, sampling })));
      expect([...answer, ...rest.tokens]).toEqual(whole.tokens);
      expect(rest.finish.generatedTokens).toBe(whole.finish.generatedTokens);
    });
  });
});

describe('memory pressure', () => {
  it('preempts but loses nothing: 16 requests of 4 to 10 blocks finish in a pool of 32', async () => {
    const random = seededRandom(3);
    const requests = Array.from({ length: 16 }, (_, index) => {
      const blocks = 4 + Math.floor(random() * 7);
      const promptTokens = 32 * Math.ceil(blocks / 2);
      return {
        prompt: randomTokens(promptTokens, vocabSize, 100 + index),
        sampling: ramble(32 * blocks - promptTokens),
      };
    });
    const expected = await withEngine({ blockCount: 2048 }, (engine) =>
      Promise.all(requests.map((request) => collect(engine.submit(engineRequest(request))))),
    );
    await withEngine({ blockCount: 32 }, async (engine) => {
      const answers = await Promise.all(
        requests.map((request) => collect(engine.submit(engineRequest(request)))),
      );
      for (const [index, { tokens }] of answers.entries())
        expect(tokens).toEqual((expected[index] as Answer).tokens);
      const stats = await engine.stats();
      expect(stats.counters.preemptions).toBeGreaterThan(0);
      expect(stats.blocks.used).toBe(0);
      expect(stats.requests.length).toBe(16);
    });
  });

  it('refuses at once what can never fit, with the numbers', async () => {
    await withEngine({ blockCount: 64 }, async (engine) => {
      const { finish } = await collect(
        engine.submit(
          engineRequest({ prompt: randomTokens(100, vocabSize, 1), sampling: ramble(64 * 32 - 98) }),
        ),
      );
      expect(finish.reason).toBe('error');
      expect(finish.error?.code).toBe('answer-never-fits');
      expect(finish.error?.message).toMatch(/65 blocks.*64/);
    });
  });
});

describe('trouble', () => {
  it('cancels before the next step, queued, in prefill and while decoding, and frees the blocks', async () => {
    await withEngine({ maxBatchSize: 2, budget: { kind: 'fixed', maxStepTokens: 32 } }, async (engine) => {
      const decoding = engine.submit(engineRequest({ prompt: chatIds('Hello'), sampling: ramble(2000) }));
      await decoding.next();
      const prefilling = engineRequest({ prompt: randomTokens(2000, vocabSize, 8), sampling: ramble(5) });
      const queued = engineRequest({ prompt: randomTokens(30, vocabSize, 9), sampling: ramble(5) });
      const answers = [prefilling, queued].map((request) => collect(engine.submit(request)));
      for (let read = 0; read < 4; read++) await decoding.next();
      engine.cancel(queued.id);
      engine.cancel(prefilling.id);
      for (const { finish, tokens } of await Promise.all(answers)) {
        expect(finish.reason).toBe('cancelled');
        expect(tokens).toEqual([]);
      }
      await decoding.return();
      await engine.drain();
      const stats = await engine.stats();
      expect(stats.blocks.used).toBe(0);
      expect(stats.requests.cancelled).toBe(3);
    });
  });

  it('ends the request alone whose logits are not numbers, or whose mask excludes every token', async () => {
    // Whatever computes position 777 gets NaN for logits.
    const poison = (backend: Backend): Backend => ({
      ...recording([])(backend),
      step: async (batch) => {
        const { logits, states } = await backend.step(batch);
        for (const [index, start] of batch.starts.entries()) {
          const row = batch.logitRows.indexOf((batch.rowStarts[index + 1] as number) - 1);
          if (start === 777 && row >= 0) logits.fill(Number.NaN, row * vocabSize, (row + 1) * vocabSize);
        }
        return { logits, states };
      },
    });
    await withEngine(
      {},
      async (engine) => {
        const bad = collect(
          engine.submit(engineRequest({ prompt: randomTokens(770, vocabSize, 2), sampling: ramble(50) })),
        );
        const masked = collect(
          engine.submit(
            engineRequest({
              prompt: chatIds('Hi'),
              sampling: ramble(50),
              mask: new Uint32Array(vocabSize / 32),
            }),
          ),
        );
        const good = collect(
          engine.submit(engineRequest({ prompt: chatIds('Hello'), sampling: ramble(50) })),
        );
        expect((await bad).finish).toMatchObject({
          reason: 'error',
          error: { code: 'numeric-error' },
          generatedTokens: 8,
        });
        expect((await masked).finish).toMatchObject({
          reason: 'error',
          error: { code: 'no-candidate' },
        });
        expect((await good).finish).toMatchObject({ reason: 'length', generatedTokens: 50 });
      },
      poison,
    );
  });

  it('refuses what is too long, unknown or too late, each with its reason', async () => {
    await withEngine({}, async (engine) => {
      const codeOf = async (request: EngineRequest) =>
        (await collect(engine.submit(request))).finish.error?.code;
      expect(await codeOf(engineRequest({ prompt: randomTokens(4096, vocabSize, 1) }))).toBe('too-long');
      expect(await codeOf(engineRequest({ prompt: [] }))).toBe('invalid');
      expect(await codeOf(engineRequest({ prompt: [vocabSize] }))).toBe('invalid');
      await engine.drain();
      expect(await codeOf(engineRequest({ prompt: [1] }))).toBe('draining');
    });
  });

  it('runs one request at a time in direct mode, and counts it', async () => {
    const batches: Batch[] = [];
    await withEngine(
      { direct: true },
      async (engine) => {
        const requests = ['Hello', 'What is 2 + 2?', 'Who are you?'].map((text) =>
          engineRequest({ prompt: chatIds(text), sampling: { maxTokens: 20 } }),
        );
        await Promise.all(requests.map((request) => collect(engine.submit(request))));
        expect(Math.max(...batches.map(({ starts }) => starts.length))).toBe(1);
        expect((await engine.stats()).requests.direct).toBe(3);
      },
      recording(batches),
    );
  });

  it('ends every request, and every later one, with the reason where the backend fails', async () => {
    const failing = (backend: Backend): Backend => {
      let steps = 0;
      return {
        ...recording([])(backend),
        step: (batch) =>
          ++steps === 4 ? Promise.reject(new Error('the backend broke')) : backend.step(batch),
      };
    };
    await withEngine(
      {},
      async (engine) => {
        const ask = () => engine.submit(engineRequest({ prompt: chatIds('Hello'), sampling: ramble(50) }));
        const answers = await Promise.all([collect(ask()), collect(ask())]);
        const error = { code: 'engine-failed', message: 'the backend broke' };
        for (const { finish } of answers) expect(finish).toMatchObject({ reason: 'error', error });
        expect(engine.failure).toBe('the backend broke');
        expect((await collect(ask())).finish).toMatchObject({ reason: 'error', error });
      },
      failing,
    );
  });

  it('leaves no stream hanging when it is closed', async () => {
    const answer = await withEngine({}, async (engine) => {
      const stream = engine.submit(engineRequest({ prompt: chatIds('Hello'), sampling: ramble(2000) }));
      await stream.next();
      return { rest: collect(stream), closed: engine.close() };
    });
    await answer.closed;
    expect((await answer.rest).finish.error?.message).toBe('the model was unloaded');
  });

  it('tells each step once, in brief, and in full only while someone watches', async () => {
    await withEngine({}, async (engine) => {
      const ask = () =>
        collect(engine.submit(engineRequest({ prompt: chatIds('Hello'), sampling: ramble(10) })));
      const brief: StepSummary[] = [];
      engine.monitor.subscribe({ step: (step) => brief.push(step) });
      await ask();
      const { steps } = await engine.stats();
      expect(brief.map(({ step }) => step)).toEqual(Array.from({ length: steps }, (_, i) => i + 1));
      expect(brief[0]?.admitted).toHaveLength(1);
      expect(brief.at(-1)?.finished).toEqual(brief[0]?.admitted);
    });
  });
});

describe('a place in the queue', () => {
  it('is told to whoever has just come in time for headers, and to those told before less often', async () => {
    const STEP_MS = 10;
    let nowMs = 0;
    const ticking = (backend: Backend): Backend => ({
      ...recording([])(backend),
      step: (batch) => {
        nowMs += STEP_MS;
        return backend.step(batch);
      },
    });
    await withEngine(
      { maxBatchSize: 1, speculation: false },
      async (engine) => {
        const told: { readonly atMs: number; readonly ids: readonly string[] }[] = [];
        engine.monitor.subscribe({
          queuePositions: (places) => told.push({ atMs: nowMs, ids: places.map(({ id }) => id) }),
        });
        const first = engine.submit(engineRequest({ prompt: chatIds('Hello'), sampling: ramble(150) }));
        await first.next();
        for (const id of ['second', 'third']) {
          const cameMs = nowMs;
          const request = engineRequest({ prompt: chatIds('Hi'), sampling: ramble(1) });
          void collect(engine.submit({ ...request, id }));
          while (nowMs < cameMs + 200) await first.next();
          const hearings = told.filter(({ ids }) => ids.includes(id));
          expect(hearings[0]?.atMs).toBeLessThanOrEqual(cameMs + 100);
          expect(hearings.length).toBe(1);
        }
        await collect(first);
      },
      ticking,
      () => nowMs,
    );
  });
});
