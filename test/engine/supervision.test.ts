// An engine process that dies is replaced; a request that kills three in a row is given up, alone.

import { describe, expect, it } from 'vitest';
import { EngineStartError, SupervisedEngine } from '../../src/pool/supervised-engine.ts';
import { chatIds, embeddedEndIds, embeddedSpec } from '../support/embedded-engine.ts';
import { embeddedModelPath } from '../support/embedded-model.ts';
import { collect, engineRequest } from '../support/engine-requests.ts';
import { randomTokens } from '../support/tiny-model.ts';

const settings = {
  modelPath: embeddedModelPath,
  // Small steps: a long prompt takes a while, so that an engine can be killed before its first token.
  engine: { blockCount: 256, budget: { kind: 'fixed', maxStepTokens: 32 }, endIds: embeddedEndIds },
} as const;

describe('a supervised engine', () => {
  it('gives up a request after three engine deaths in a row, and serves on', async () => {
    const incidents: string[] = [];
    const { engine } = await SupervisedEngine.start(settings, {
      onIncident: (message) => incidents.push(message),
    });
    try {
      const deadly = engineRequest({
        prompt: randomTokens(3500, embeddedSpec.vocabSize, 1),
        sampling: { maxTokens: 5 },
      });
      const answer = collect(engine.submit(deadly));
      for (let kills = 0; kills < 3; kills++) {
        // The process answers once it has taken the request up.
        await waitUntil(async () => (await engine.stats()).running.length === 1);
        process.kill(engine.pid as number, 'SIGKILL');
        await waitUntil(async () => (await engine.stats().catch(() => undefined)) === undefined);
      }
      const { finish } = await answer;
      expect(finish).toMatchObject({ reason: 'error', error: { code: 'engine-failed' } });
      expect(finish.error?.message).toMatch(/3 engine processes in a row/);
      const hello = await collect(
        engine.submit(engineRequest({ prompt: chatIds('Hello'), sampling: { maxTokens: 40 } })),
      );
      expect(hello.finish.reason).toBe('stop');
      expect(engine.restarts).toBe(3);
      expect(incidents.length).toBe(3);
    } finally {
      await engine.close();
    }
  });

  it('cancels in the process, drains, and leaves no process behind', async () => {
    const { engine } = await SupervisedEngine.start(settings);
    const pid = engine.pid as number;
    const request = engineRequest({
      prompt: chatIds('Hello'),
      sampling: { ignoreEos: true, maxTokens: 3000 },
    });
    const stream = engine.submit(request);
    await stream.next();
    engine.cancel(request.id);
    expect((await collect(stream)).finish.reason).toBe('cancelled');
    expect((await engine.stats()).blocks.used).toBe(0);
    const last = collect(
      engine.submit(engineRequest({ prompt: chatIds('Who are you?'), sampling: { maxTokens: 60 } })),
    );
    await engine.drain();
    expect((await last).finish.reason).toBe('stop');
    const late = await collect(engine.submit(engineRequest({ prompt: chatIds('Hello') })));
    expect(late.finish.error?.code).toBe('draining');
    await engine.close();
    expect(() => process.kill(pid, 0)).toThrow();
  });

  it('says why a model cannot be served', async () => {
    const start = SupervisedEngine.start({ ...settings, modelPath: '/nowhere/model.gguf' });
    await expect(start).rejects.toThrow(EngineStartError);
    await expect(start).rejects.toThrow(/does not exist/);
  });
});

async function waitUntil(holds: () => Promise<boolean>): Promise<void> {
  for (;;) {
    if (await holds().catch(() => false)) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
