// What images take of a GPU's memory is given back, and where there is none, or the GPU is lost, it is said so. On a simulated GPU.

import { afterEach, describe, expect, it } from 'vitest';
import type { Backend } from '../../src/compute/backend.ts';
import { buildBatch } from '../../src/compute/batch.ts';
import { BackendFailedError } from '../../src/compute/image-failures.ts';
import { seeingModel, smallImage } from '../support/seeing-model.ts';
import { limitSimulatedMemory, loseSimulatedGpu, simulatedGpu } from '../support/simulated-gpu.ts';
import { randomTokens } from '../support/tiny-model.ts';

const gpu = simulatedGpu();
const model = seeingModel();
const image = smallImage(3);

async function featuresOf(backend: Backend) {
  const run = backend.beginImage?.(image);
  if (run === undefined) throw new Error('the backend does not see');
  try {
    while (run.features === undefined) await run.advance(Number.POSITIVE_INFINITY);
    return run.features;
  } finally {
    run.close();
  }
}

const text = (start: number) =>
  buildBatch([{ tokens: randomTokens(5, model.spec.vocabSize, 1), start, blocks: [0], wantLogits: 'last' }]);

describe('images on a GPU', () => {
  afterEach(() => {
    limitSimulatedMemory(undefined);
    loseSimulatedGpu(false);
  });

  it('are refused where there is no memory, and give back what they took', async () => {
    const backend = await gpu.create(model, { blockCount: 4 });
    await backend.step(text(0));
    let limit = 1 << 16;
    for (; ; limit *= 1.25) {
      limitSimulatedMemory(Math.floor(limit));
      try {
        await featuresOf(backend);
        break;
      } catch (error) {
        expect(error).toMatchObject({
          name: 'CudaMemoryError',
          message: 'the GPU has no memory for an image of 36 x 28 pixels',
        });
      }
    }
    // There is no room for two.
    const expected = await featuresOf(backend);
    for (let again = 0; again < 2; again++) expect(await featuresOf(backend)).toEqual(expected);
    await backend.step(text(5));
    backend.close();
  });

  it('are to blame for no GPU that was lost', async () => {
    const backend = await gpu.create(model, { blockCount: 4 });
    loseSimulatedGpu(true);
    await expect(featuresOf(backend)).rejects.toThrow(BackendFailedError);
    await expect(backend.step(text(0))).rejects.toThrow('the GPU was lost');
    backend.close();
  });

  it('may be closed while a step is computed', async () => {
    const backend = await gpu.create(model, { blockCount: 4 });
    const run = backend.beginImage?.(image);
    await run?.advance(1);
    const step = backend.step(text(0));
    run?.close();
    await step;
    await backend.step(text(5));
    backend.close();
  });
});
