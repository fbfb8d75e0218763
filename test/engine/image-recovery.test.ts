// An engine process that is killed while it looks at an image, or in the middle of an answer about one: the next one is given
// the image again, and the answer goes on as if nothing had happened.

import { describe, expect, it } from 'vitest';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import { LocalEngine } from '../../src/engine/local-engine.ts';
import type { EngineRequest, TokenEvent } from '../../src/engine/request.ts';
import { SupervisedEngine } from '../../src/pool/supervised-engine.ts';
import { collect } from '../support/engine-requests.ts';
import { eventually } from '../support/eventually.ts';
import { seeingOptions, seeingRequest } from '../support/seeing-requests.ts';
import { hasTestdata, testdata } from '../support/testdata.ts';
import { goldenCases, openSeeing, readCase } from '../vision/golden-case.ts';

async function askedAlone(family: string): Promise<{ request: EngineRequest; tokens: readonly number[] }> {
  const seeing = await openSeeing(createReferenceBackend, family);
  const [one] = goldenCases(family).filter(({ name }) => name === 'two images');
  const prompt = await readCase(seeing, one as Parameters<typeof readCase>[1]);
  const sampling = { maxTokens: 24, ignoreEos: true, temperature: 0.8, seed: 5 } as const;
  const request = await seeingRequest(seeing, prompt, { sampling });
  const engine = new LocalEngine(seeing.backend, seeingOptions(seeing));
  const { tokens } = await collect(engine.submit(request));
  await engine.close();
  return { request, tokens };
}

describe.skipIf(!hasTestdata)('an engine process that is killed', () => {
  it.each(['qwen3_vl', 'gemma3'])(
    'during a tower and during an answer gives the same answer about images (%s)',
    async (family) => {
      const { request, tokens } = await askedAlone(family);
      const engine = new SupervisedEngine({
        modelPath: testdata('vision', family),
        backend: 'reference',
        images: true,
        engine: { blockCount: 32, budget: { kind: 'fixed', maxStepTokens: 16 }, endIds: [] },
      });
      try {
        expect(await engine.start()).toMatchObject({ ok: true });
        const events = engine.submit(request);
        await eventually(async () => {
          const { waiting = 0, pieces = 0 } = (await engine.stats()).images ?? {};
          expect(waiting + pieces).toBeGreaterThan(0);
        }, 5);
        process.kill(engine.pid as number, 'SIGKILL');
        const got: number[] = [];
        for (let count = 0; count < 5; count++) {
          got.push(((await events.next()).value as TokenEvent).token);
        }
        process.kill(engine.pid as number, 'SIGKILL');
        const rest = await collect(events);
        expect(rest.finish.reason).toBe('length');
        expect([...got, ...rest.tokens]).toEqual(tokens);
        expect(engine.restarts).toBe(2);
        expect((await engine.stats()).images).toMatchObject({ waiting: 0, usedBytes: 0 });
      } finally {
        await engine.close();
      }
    },
  );
});
