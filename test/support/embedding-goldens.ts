// Texts with the vectors that other implementations make of them: tools/embeddings/golden.py made the numbers.

import { readFileSync } from 'node:fs';
import { expect } from 'vitest';
import type { CreateBackend } from '../../src/compute/backend.ts';
import { LocalEngine } from '../../src/engine/local-engine.ts';
import { cosine, Embedding } from '../../src/generation/embedding.ts';
import type { Pooling } from '../../src/model/pooling.ts';
import { openLocalModel } from '../../src/pool/local-model.ts';

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

export const embeddingGoldens: Golden = JSON.parse(
  readFileSync(new URL('../golden/embeddings.json', import.meta.url), 'utf8'),
);

const poolings = ['mean', 'last'] as const satisfies readonly Pooling[];

/** Rotary factors depend on how long texts may be; these are short. */
const CONTEXT = 256;

/** The least cosine between what is computed and what is known, over all texts, pooled in both ways. */
export async function leastEmbeddingCosine(
  create: CreateBackend,
  path: string,
  texts: readonly GoldenText[],
): Promise<number> {
  const { spec, tokenizer, files, close } = openLocalModel(path, { contextLength: CONTEXT });
  const blockCount = 64;
  const backend = await create(spec, files.weights, { blockCount });
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
      const model = {
        name: backend.name,
        spec,
        engine,
        pooling: { possible: true, pooling, declared: true },
      } as const;
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
