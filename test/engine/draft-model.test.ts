// A smaller model that drafts: answers are those without it, whether it is always right, never, or sometimes; its blocks are
// given back; and models that cannot draft for another are refused.

import { describe, expect, it } from 'vitest';
import { chooseBackend } from '../../src/compute/choose-backend.ts';
import type { EngineOptions } from '../../src/engine/engine.ts';
import { load } from '../../src/index.ts';
import type { ModelSpec } from '../../src/model/spec.ts';
import { openLocalModel } from '../../src/pool/local-model.ts';
import type { WeightSource } from '../../src/weights/weight-source.ts';
import { chatIds, embeddedSpec, withEngine } from '../support/embedded-engine.ts';
import { embeddedModelPath } from '../support/embedded-model.ts';
import { collect, engineRequest, type TestRequest } from '../support/engine-requests.ts';
import { hasTestdata, testdata } from '../support/testdata.ts';
import { tinyModel } from '../support/tiny-model.ts';

const texts = [
  'a fox named Milo in the forest',
  'a bear by the lake',
  'an owl in the tower',
  'a cat',
  'a king',
];
const requests: readonly TestRequest[] = texts.map((about, n) => ({
  prompt: chatIds(`Tell me a story about ${about}.`),
  sampling: { temperature: n % 2, seed: n, maxTokens: 40, ...(n === 3 ? { repetitionPenalty: 1.2 } : {}) },
}));

async function answers(options: Partial<EngineOptions>, atOnce: number) {
  return withEngine(options, async (engine) => {
    const all = [];
    for (let from = 0; from < requests.length; from += atOnce) {
      const group = requests.slice(from, from + atOnce);
      all.push(...(await Promise.all(group.map((one) => collect(engine.submit(engineRequest(one)))))));
    }
    return { all, steps: (await engine.stats()).steps };
  });
}

async function draftOf({ spec, weights }: { spec: ModelSpec; weights: WeightSource }, blockCount = 256) {
  const backend = await chooseBackend(undefined).create(spec, weights, { blockCount });
  return { backend, vocabSize: spec.vocabSize, contextLength: spec.contextLength };
}

const itself = () => {
  const { spec, files } = openLocalModel(embeddedModelPath);
  return { spec, weights: files.weights };
};
const unrelated = () => tinyModel({ vocabSize: embeddedSpec.vocabSize, layerCount: 1 });
/** No better drafter is asked. */
const alone = { newDrafter: () => ({ propose: () => undefined, extend() {}, rollBack() {}, accept() {} }) };

describe('a draft model', () => {
  it.each([1, 3])('changes no answer, right or wrong, %i at once', async (atOnce) => {
    const plain = await answers({ speculation: false }, atOnce);
    for (const model of [itself, unrelated]) {
      const speculative = await answers({ ...alone, draft: await draftOf(model()) }, atOnce);
      expect(speculative.all.map(({ tokens }) => tokens)).toEqual(plain.all.map(({ tokens }) => tokens));
    }
    const mixed = await answers({ draft: await draftOf(itself()) }, atOnce);
    expect(mixed.all.map(({ tokens }) => tokens)).toEqual(plain.all.map(({ tokens }) => tokens));
  });

  it('that is the model itself is always right', async () => {
    const { all } = await answers({ ...alone, draft: await draftOf(itself()) }, 1);
    const count = (kind: 'accepted' | 'rejected') =>
      all.reduce((sum, { finish }) => sum + (finish.draftTokens?.[kind] ?? 0), 0);
    expect(count('accepted')).toBeGreaterThan(0);
    expect(count('rejected')).toBe(0);
  });

  it('gets along with few blocks, and with fewer than it holds', async () => {
    const plain = await answers({ speculation: false }, 5);
    const draft = await draftOf(itself(), 6);
    const speculative = await withEngine({ ...alone, draft }, async (engine) => {
      const running = requests.map((one) => collect(engine.submit(engineRequest(one))));
      setTimeout(() => engine.engine.allow(20), 50);
      return Promise.all(running);
    });
    expect(speculative.map(({ tokens }) => tokens)).toEqual(plain.all.map(({ tokens }) => tokens));
  });

  it('is loaded beside its model in a program, and refused where its tokens are others', {
    timeout: 60_000,
  }, async () => {
    const ask = async (draft: string | undefined) => {
      const model = await load({ draft, memory: '1GB' });
      try {
        const messages = [{ role: 'user', content: 'Tell me a story about a fox.' }] as const;
        return (await model.chat(messages, { temperature: 0, maxTokens: 60 }).result()).text;
      } finally {
        await model.close();
      }
    };
    expect(await ask(embeddedModelPath)).toBe(await ask(undefined));
    if (hasTestdata)
      await expect(ask(testdata('arch/qwen3'))).rejects.toThrow(/cannot draft for this model: it has/);
  });
});
