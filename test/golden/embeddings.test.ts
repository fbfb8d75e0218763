// Vectors of texts against independent implementations: the embedded model by plain PyTorch, others by Hugging Face
// transformers. tools/embeddings/golden.py made the numbers.

import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { BackendName } from '../../src/compute/backend.ts';
import { chooseBackend } from '../../src/compute/choose-backend.ts';
import { LocalEngine } from '../../src/engine/local-engine.ts';
import { cosine, Embedding } from '../../src/generation/embedding.ts';
import type { Pooling } from '../../src/model/pooling.ts';
import { openLocalModel } from '../../src/pool/local-model.ts';
import { embeddedModelPath } from '../support/embedded-model.ts';
import { hasAddon } from '../support/native.ts';
import { hasTestdata, testdata } from '../support/testdata.ts';
import { thorough } from '../support/thorough.ts';

interface GoldenText {
  readonly text: string;
  readonly ids: readonly number[];
  readonly mean: readonly number[];
  readonly last: readonly number[];
}

interface Golden {
  readonly embedded: readonly GoldenText[];
  readonly shared: readonly { readonly model: string; readonly texts: readonly GoldenText[] }[];
}

const golden: Golden = JSON.parse(readFileSync(new URL('embeddings.json', import.meta.url), 'utf8'));
const backends: readonly BackendName[] = hasAddon ? ['reference', 'cpu'] : ['reference'];
const poolings = ['mean', 'last'] as const satisfies readonly Pooling[];

/** Rotary factors depend on how long texts may be; these are short. */
const CONTEXT = 256;

/** The least cosine between what is computed and what is known, over all texts, pooled in both ways. */
async function leastCosine(path: string, name: BackendName, texts: readonly GoldenText[]): Promise<number> {
  const { spec, tokenizer, files, close } = openLocalModel(path, { contextLength: CONTEXT });
  const blockCount = 64;
  const backend = await chooseBackend(name).create(spec, files.weights, { blockCount });
  close();
  const budget = { kind: 'fixed', maxStepTokens: 64 } as const;
  const { vocabSize, contextLength } = spec;
  const engine = new LocalEngine(backend, { blockCount, budget, vocabSize, contextLength, endIds: [] });
  try {
    const prompts = texts.map(({ text, ids }) => {
      const encoded = tokenizer.encode(text, { special: true, bos: true, eos: true });
      expect([...encoded]).toEqual(ids);
      return { ids: encoded, continuation: true };
    });
    const cosines: number[] = [];
    for (const pooling of poolings) {
      const model = { name, spec, engine, pooling: { possible: true, pooling, declared: true } } as const;
      const embedding = new Embedding({ id: pooling, model, prompts }, new AbortController().signal);
      const vectors = await embedding.vectors();
      cosines.push(
        ...texts.map((text, at) => cosine(Float32Array.from(text[pooling]), vectors[at] as Float32Array)),
      );
    }
    return Math.min(...cosines);
  } finally {
    await engine.close();
  }
}

describe.each(backends)('vectors on the %s backend', (name) => {
  it('of the embedded model are those that PyTorch computes', async () => {
    // The reference backend takes its time with so large a model.
    const isQuick = ({ ids }: GoldenText) => thorough || name !== 'reference' || ids.length < 20;
    const least = await leastCosine(embeddedModelPath, name, golden.embedded.filter(isQuick));
    // Against quantized weights the cpu backend computes with activations of int8.
    expect(least).toBeGreaterThanOrEqual(name === 'cpu' ? 0.9998 : 0.9999);
  });

  it.skipIf(!hasTestdata).each(golden.shared)(
    'of $model are those that transformers computes (skipped where it is absent)',
    async ({ model, texts }) => {
      const least = await leastCosine(testdata(model), name, texts);
      expect(least).toBeGreaterThanOrEqual(0.9999);
    },
  );
});
