// An encoder in an engine: vectors are the same bits alone and among others, in whatever steps, and after a lost process.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CreateBackend } from '../../src/compute/backend.ts';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import type { EngineOptions } from '../../src/engine/engine.ts';
import type { EngineClient } from '../../src/engine/engine-client.ts';
import { LocalEngine } from '../../src/engine/local-engine.ts';
import type { Pooling } from '../../src/model/pooling.ts';
import { SupervisedEngine } from '../../src/pool/supervised-engine.ts';
import { writeEncoderFolder } from '../support/encoder-folder.ts';
import { collect, embedRequest } from '../support/engine-requests.ts';
import { createOnCpu, hasAddon } from '../support/native.ts';
import { randomTokens, tinyModel } from '../support/tiny-model.ts';

const { spec, weights } = tinyModel({
  bidirectional: true,
  streamNorms: true,
  addedTables: true,
  layerNorms: true,
  biases: true,
  preNorms: false,
  finalNorm: false,
  window: 9,
});
const { vocabSize, contextLength } = spec;
const backends: readonly (readonly [name: string, create: CreateBackend])[] = [
  ['reference', createReferenceBackend],
  ...(hasAddon ? ([['cpu', createOnCpu]] as const) : []),
];
const poolings: readonly Pooling[] = ['mean', 'cls', 'last'];
const texts = Array.from({ length: 12 }, (_, seed) =>
  randomTokens(1 + ((seed * 37) % 140), vocabSize, seed + 1),
);

async function withEngine<Result>(
  create: CreateBackend,
  maxStepTokens: number,
  use: (engine: LocalEngine) => Promise<Result>,
  more: Partial<EngineOptions> = {},
): Promise<Result> {
  const blockCount = 24;
  const backend = await create(spec, weights, { blockCount });
  const budget = { kind: 'fixed', maxStepTokens } as const;
  const options = { blockCount, budget, vocabSize, contextLength, endIds: [], wholeTexts: true, ...more };
  const engine = new LocalEngine(backend, options);
  try {
    return await use(engine);
  } finally {
    await engine.close();
  }
}

async function vectorOf(engine: Pick<EngineClient, 'submit'>, text: readonly number[], pooling: Pooling) {
  const { finish } = await collect(engine.submit(embedRequest(text, pooling)));
  expect(finish).toMatchObject({ reason: 'stop', cachedTokens: 0, promptTokens: text.length });
  return finish.vector;
}

describe.each(backends)('vectors of an encoder on the %s backend', (_, create) => {
  it.each(poolings)('are the same bits alone and among others, %s', async (pooling) => {
    const alone = await withEngine(create, 256, async (engine) => {
      const vectors = [];
      for (const text of texts) vectors.push(await vectorOf(engine, text, pooling));
      return vectors;
    });
    for (const maxStepTokens of [1, 60, 2048]) {
      await withEngine(create, maxStepTokens, async (engine) => {
        const together = await Promise.all(texts.map((text) => vectorOf(engine, text, pooling)));
        expect(together).toEqual(alone);
      });
    }
  });

  it('take as few steps as budget and blocks allow', async () => {
    await withEngine(create, 2048, async (engine) => {
      await Promise.all(texts.slice(0, 6).map((text) => vectorOf(engine, text, 'mean')));
      // The first may go before the others come.
      expect((await engine.stats()).steps).toBeLessThanOrEqual(2);
    });
  });

  it('are not made of a text beyond the positions that there are', async () => {
    await withEngine(create, 64, async (engine) => {
      const long = randomTokens(contextLength + 1, vocabSize);
      const { finish } = await collect(engine.submit(embedRequest(long, 'mean')));
      expect(finish).toMatchObject({ reason: 'error', error: { code: 'too-long' } });
      expect(await vectorOf(engine, long.slice(1), 'mean')).toBeDefined();
    });
  });
});

describe('an encoder in a process of its own', () => {
  const folder = join(mkdtempSync(join(tmpdir(), 'chairlift-encoder-')), 'bert');
  beforeAll(() => writeEncoderFolder(folder));
  afterAll(() => rmSync(join(folder, '..'), { recursive: true }));

  it('embeds again what was lost with it', async () => {
    const engine = new SupervisedEngine({
      modelPath: folder,
      engine: { blockCount: 64, budget: { kind: 'fixed', maxStepTokens: 8 }, endIds: [] },
    });
    expect(await engine.start()).toMatchObject({ ok: true });
    try {
      const known = Array.from({ length: 200 }, (_, seed) => randomTokens(70, 100, seed));
      const expected = await vectorOf(engine, known[199] as number[], 'mean');
      let steps = 0;
      engine.monitor.subscribe({
        step: () => {
          if (++steps === 20) process.kill(engine.pid as number, 'SIGKILL');
        },
      });
      const vectors = await Promise.all(known.map((text) => vectorOf(engine, text, 'mean')));
      expect(vectors[199]).toEqual(expected);
      expect(vectors.every((vector) => vector !== undefined)).toBe(true);
      expect(engine.restarts).toBe(1);
    } finally {
      await engine.close();
    }
  });
});
