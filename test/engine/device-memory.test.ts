// A device without memory for what the engine may hold: sequences wait and go on when there is some, and one that cannot run
// even alone ends in the end, with the reason.

import { describe, expect, it, vi } from 'vitest';
import { BLOCK_TOKENS } from '../../src/compute/backend.ts';
import { chooseBackend } from '../../src/compute/choose-backend.ts';
import { LocalEngine } from '../../src/engine/local-engine.ts';
import { RETRY_MS } from '../../src/engine/resident-blocks.ts';
import { openLocalModel } from '../../src/pool/local-model.ts';
import { DeviceMemory, END_TOKEN, HashBackend, VOCABULARY } from '../property/hash-backend.ts';
import { prompt, SteppedEngine } from '../property/stepped-engine.ts';
import { chatIds, withEngine } from '../support/embedded-engine.ts';
import { embeddedModelPath } from '../support/embedded-model.ts';
import { collect, engineRequest } from '../support/engine-requests.ts';

const BLOCKS = 40;
const options = { blockCount: BLOCKS, budget: { kind: 'fixed', maxStepTokens: 64 } } as const;

describe('an engine on a device', () => {
  it('takes memory as its sequences grow, and gives it back when it may hold less', async () => {
    const device = new DeviceMemory(BLOCKS);
    const engine = new SteppedEngine(options, device);
    engine.submit({ prompt: prompt(10), newTokens: 5 });
    await engine.step();
    expect(device.capacity).toBe(1);
    engine.submit({ prompt: prompt(10 * BLOCK_TOKENS, 2), newTokens: 5 });
    await engine.drain();
    expect(device.capacity).toBeGreaterThanOrEqual(10);
    expect(device.capacity).toBeLessThan(BLOCKS);
    engine.engine.allow(3);
    await engine.step();
    expect(device.capacity).toBe(3);
    // What was given back is told with it, so that another model may have it.
    expect(engine.lastReport?.blocks).toMatchObject({ limit: 3, held: 3 });
    engine.checkOutputs();
  });

  it('says what it was allowed, and wants no more, where the device refuses it', async () => {
    const device = new DeviceMemory(8);
    const engine = new SteppedEngine({ ...options, blockLimit: 20 }, device);
    for (const seed of [1, 2, 3]) engine.submit({ prompt: prompt(5 * BLOCK_TOKENS, seed), newTokens: 40 });
    for (let step = 0; step < 40; step++) await engine.step();
    expect(device.refusals).toBeGreaterThan(0);
    expect(device.capacity).toBe(8);
    expect(engine.lastReport?.blocks).toMatchObject({ limit: 20, wanted: 20 });
    expect(engine.scheduler.tables.pool.limit).toBe(8);
    await engine.drain();
    engine.checkOutputs();
  });

  it('takes more when the device has memory again', async () => {
    const device = new DeviceMemory(8);
    const engine = new SteppedEngine(options, device);
    for (const seed of [1, 2, 3]) engine.submit({ prompt: prompt(5 * BLOCK_TOKENS, seed), newTokens: 60 });
    for (let step = 0; step < 10; step++) await engine.step();
    expect(engine.scheduler.isLimitedByDevice).toBe(true);
    device.available = BLOCKS;
    const began = engine.nowMs;
    while (engine.scheduler.isLimitedByDevice) await engine.step();
    expect(engine.nowMs - began).toBeLessThan(2 * RETRY_MS);
    await engine.drain();
    expect(device.capacity).toBeGreaterThan(8);
    engine.checkOutputs();
  });

  it('lets a draft model draft where there is memory for it, with the same answers where there is none', async () => {
    const requests = ['a fox', 'a bear', 'an owl'].map((about) => ({
      prompt: chatIds(`Tell me a story about ${about}.`),
      sampling: { temperature: 0, maxTokens: 40 },
    }));
    const answersWith = async (device: DeviceMemory) => {
      const { spec, files } = openLocalModel(embeddedModelPath);
      const own = await chooseBackend(undefined).create(spec, files.weights, { blockCount: 64 });
      const backend = Object.assign(own, { blockMemory: device });
      const draft = { backend, vocabSize: spec.vocabSize, contextLength: spec.contextLength };
      const silent = { propose: () => undefined, extend() {}, rollBack() {}, accept() {} };
      return withEngine({ newDrafter: () => silent, draft }, async (engine) =>
        Promise.all(requests.map((one) => collect(engine.submit(engineRequest(one))))),
      );
    };
    const accepted = (answers: Awaited<ReturnType<typeof answersWith>>) =>
      answers.reduce((sum, { finish }) => sum + (finish.draftTokens?.accepted ?? 0), 0);
    const [roomy, full] = [await answersWith(new DeviceMemory(64)), await answersWith(new DeviceMemory(0))];
    expect(full.map(({ tokens }) => tokens)).toEqual(roomy.map(({ tokens }) => tokens));
    expect(accepted(roomy)).toBeGreaterThan(0);
    expect(accepted(full)).toBe(0);
  });
});

describe('a sequence that cannot run even alone', () => {
  const large = { prompt: prompt(6 * BLOCK_TOKENS, 1), newTokens: 2 };

  it('ends when a device has had no memory for it for long; others go on', async () => {
    const engine = new SteppedEngine(options, new DeviceMemory(4));
    const sequence = engine.submit(large);
    const stepFor = async (ms: number) => {
      for (let at = 0; at < ms; at += RETRY_MS) {
        engine.nowMs += RETRY_MS;
        await engine.step();
      }
    };
    await stepFor(20 * RETRY_MS);
    expect(sequence.state).not.toBe('finished');
    await stepFor(20 * RETRY_MS);
    expect(sequence.state).toBe('finished');
    const small = engine.submit({ prompt: prompt(2 * BLOCK_TOKENS, 2), newTokens: 2 });
    await engine.drain();
    expect(engine.finishOf(sequence)).toMatchObject({
      reason: 'error',
      error: {
        code: 'engine-failed',
        message: expect.stringContaining('the GPU has no memory for 6 KV blocks, but for 4'),
      },
    });
    expect(engine.finishOf(small)?.reason).toBe('length');
  });

  it('goes on by itself once there is memory', async () => {
    const device = new DeviceMemory(4);
    const engine = new LocalEngine(new HashBackend(BLOCKS, undefined, device), {
      ...options,
      vocabSize: VOCABULARY,
      contextLength: 1 << 20,
      endIds: [END_TOKEN],
      speculation: false,
    });
    const ids = large.prompt.map((token) => token % VOCABULARY);
    const answer = collect(engine.submit(engineRequest({ prompt: ids, sampling: { maxTokens: 2 } })));
    await vi.waitUntil(() => device.refusals > 0);
    device.available = BLOCKS;
    expect((await answer).finish.reason).not.toBe('error');
    await engine.close();
  });
});
