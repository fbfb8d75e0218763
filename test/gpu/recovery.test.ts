// A model on a GPU outlives its engine process: answers are whole and the same, whatever ends it. On a GPU played by
// the processor.

import { expect, it } from 'vitest';
import { SupervisedEngine } from '../../src/pool/supervised-engine.ts';
import { chatIds, embeddedEndIds } from '../support/embedded-engine.ts';
import { embeddedModelPath } from '../support/embedded-model.ts';
import { type Answer, collect, engineRequest } from '../support/engine-requests.ts';
import { describeOnGpu } from '../support/on-gpu.ts';

const settings = {
  modelPath: embeddedModelPath,
  backend: 'webgpu',
  engine: { blockCount: 32, budget: { kind: 'fixed', maxStepTokens: 32 }, endIds: embeddedEndIds },
} as const;

const requests = ['Hello', 'Who are you?'].map((text, index) => ({
  prompt: chatIds(text).slice(-4),
  // One is greedy and drawn by the GPU when alone, one is drawn at random.
  sampling: { ignoreEos: true, maxTokens: 2, temperature: index, seed: 7 },
}));

async function answers(disturb: (engine: SupervisedEngine) => void): Promise<Answer[]> {
  const engine = new SupervisedEngine(settings);
  try {
    expect(await engine.start()).toMatchObject({ ok: true, ready: { backend: 'webgpu' } });
    const streams = requests.map((request) => engine.submit(engineRequest(request)));
    const running = streams.map(collect);
    disturb(engine);
    return await Promise.all(running);
  } finally {
    await engine.close();
  }
}

describeOnGpu('an engine on a GPU', () => {
  it('gives the same answers when it is killed on the way', async () => {
    const undisturbed = await answers(() => {});
    expect(undisturbed.map(({ tokens }) => tokens.length)).toEqual([2, 2]);
    let restarts = 0;
    const disturbed = await answers((engine) => {
      process.kill(engine.pid as number, 'SIGKILL');
      restarts++;
    });
    expect(restarts).toBe(1);
    expect(disturbed.map(({ tokens }) => tokens)).toEqual(undisturbed.map(({ tokens }) => tokens));
  });
});
