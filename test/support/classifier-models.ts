// Classifiers whose weights follow a formula, with outputs of their heads computed by HF transformers in float32:
// tools/formula-models/classifiers.py made them.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { CreateBackend } from '../../src/compute/backend.ts';
import { buildBatch } from '../../src/compute/batch.ts';
import { scoresOf } from '../../src/generation/embedding.ts';
import { buildSpec } from '../../src/model/build-spec.ts';
import { modelClassifier } from '../../src/model/classifier.ts';
import { readClassifierHead } from '../../src/model/classifier-head.ts';
import { applyDense } from '../../src/model/dense-layers.ts';
import type { Pooling } from '../../src/model/pooling.ts';
import { withSecondTexts } from '../../src/model/second-texts.ts';
import type { OpenedModel } from '../../src/weights/open-model.ts';
import { blocksFor } from './backend-properties.ts';
import { asFolder, type FormulaModel } from './formula-model.ts';

export interface ClassifierModel extends Pick<FormulaModel, 'config' | 'tensors' | 'ids'> {
  /** Where the second text begins. */
  readonly second: number;
  /** The output is the logit of the first less that of the second. */
  readonly tokens?: readonly [yes: number, no: number];
  readonly outputs: readonly number[];
  /** Of the outputs: by the sigmoid of one, by the softmax of several. */
  readonly scores: readonly number[];
}

const stored: { readonly models: Readonly<Record<string, ClassifierModel>> } = JSON.parse(
  readFileSync(new URL('../golden/classifiers.json', import.meta.url), 'utf8'),
);

export const classifierModels = stored.models;

/** What `use` gives for the model as if opened from a folder, with the files that say which tokens count. */
export async function withClassifierFolder<Result>(
  model: ClassifierModel,
  use: (opened: OpenedModel) => Promise<Result>,
): Promise<Result> {
  const directory = mkdtempSync(join(tmpdir(), 'chairlift-classifier-'));
  try {
    if (model.tokens !== undefined) {
      const [yes, no] = model.tokens;
      mkdirSync(join(directory, '1_LogitScore'));
      const step = { path: '1_LogitScore', type: 'sentence_transformers.cross_encoder.modules.LogitScore' };
      writeFileSync(join(directory, 'modules.json'), JSON.stringify([step]));
      const ids = { true_token_id: yes, false_token_id: no };
      writeFileSync(join(directory, '1_LogitScore', 'config.json'), JSON.stringify(ids));
    }
    return await use({ ...asFolder(model), directory } as OpenedModel);
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** The outputs of the head for the two texts, and its scores. */
export async function classifierOutputs(
  create: CreateBackend,
  { ids, second }: ClassifierModel,
  opened: OpenedModel,
): Promise<{ readonly outputs: Float32Array; readonly scores: readonly number[] }> {
  const { spec, weights } = withSecondTexts(buildSpec(opened), opened.weights);
  const classifier = modelClassifier(opened, spec);
  if (classifier === undefined) throw new Error('the model has no head');
  const { pairs, pooling } = classifier;
  const added = pairs.kind === 'joined' ? pairs.secondText : 0;
  const tokens = ids.map((id, at) => (at < second ? id : id + added));
  const blocks = Array.from({ length: blocksFor(ids.length) }, (_, block) => (block * 7) % 32);
  const backend = await create(spec, weights, { blockCount: 32 });
  const text = { tokens, start: 0, blocks, wantLogits: 'none', wantStates: 'all' } as const;
  const states = (await backend.step(buildBatch([text]))).states.slice();
  backend.close();
  const outputs = applyDense(
    readClassifierHead(opened, spec) ?? [],
    pooled(states, spec.hiddenSize, pooling),
  );
  return { outputs, scores: scoresOf(outputs, classifier) };
}

function pooled(states: Float32Array, size: number, pooling: Pooling): Float32Array {
  const count = states.length / size;
  if (pooling !== 'mean') return states.subarray(pooling === 'cls' ? 0 : (count - 1) * size).slice(0, size);
  const sum = new Float32Array(size);
  for (const [at, value] of states.entries()) sum[at % size] = (sum[at % size] as number) + value / count;
  return sum;
}

export function largestDifference(known: readonly number[], found: ArrayLike<number>): number {
  if (found.length !== known.length) return Number.POSITIVE_INFINITY;
  return Math.max(...known.map((value, at) => Math.abs(value - (found[at] as number))));
}
