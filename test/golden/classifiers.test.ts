// Classifiers and cross-encoders from files to the outputs of their heads, against results of HF transformers; also in the
// form GGUF files have.

import { describe, expect, it } from 'vitest';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import { buildSpec } from '../../src/model/build-spec.ts';
import { modelClassifier } from '../../src/model/classifier.ts';
import type { ModelSpec } from '../../src/model/spec.ts';
import type { GgufValue } from '../../src/weights/gguf-metadata.ts';
import type { OpenedModel } from '../../src/weights/open-model.ts';
import { classifierGoldens } from '../contract/golden-contract.ts';
import {
  classifierModels,
  classifierOutputs,
  largestDifference,
  withClassifierFolder,
} from '../support/classifier-models.ts';
import { encoderAsGguf } from '../support/encoder-gguf.ts';
import { floatTensor, memoryWeights } from '../support/memory-weights.ts';
import { createOnCpu, hasAddon } from '../support/native.ts';

const TOLERANCE = 2e-5;

describe('the reference backend', () => {
  classifierGoldens(createReferenceBackend);

  it.each(Object.entries(classifierModels))('gives the outputs of HF transformers: %s', async (_, model) => {
    const found = await withClassifierFolder(model, (opened) =>
      classifierOutputs(createReferenceBackend, model, opened),
    );
    expect(largestDifference(model.outputs, found.outputs)).toBeLessThan(TOLERANCE);
  });
});

describe.skipIf(!hasAddon)('the cpu backend (skipped where the addon is not built)', () =>
  classifierGoldens(createOnCpu),
);

describe('a classifier', () => {
  const classifierOf = (name: string) =>
    withClassifierFolder(classifierModels[name] as never, async (opened) =>
      modelClassifier(opened, buildSpec(opened)),
    );

  it('scores by what its files say', async () => {
    expect(await classifierOf('bert of three labels')).toMatchObject({
      labels: ['LABEL_0', 'LABEL_1', 'LABEL_2'],
      activation: 'softmax',
    });
    expect(await classifierOf('bert')).toMatchObject({ activation: 'sigmoid', pooling: 'cls' });
    expect((await classifierOf('modernbert by the mean'))?.pooling).toBe('mean');
    expect(await classifierOf('qwen3')).toMatchObject({
      pooling: 'last',
      pairs: { kind: 'template' },
    });
  });

  it('gives another score where the second text counts as the first', async () => {
    const model = classifierModels.bert as (typeof classifierModels)[string];
    const [kept, moved] = await withClassifierFolder(model, async (opened) => [
      await classifierOutputs(createReferenceBackend, model, opened),
      await classifierOutputs(createReferenceBackend, { ...model, second: model.ids.length }, opened),
    ]);
    expect(Math.abs((kept?.outputs[0] ?? 0) - (moved?.outputs[0] ?? 0))).toBeGreaterThan(1e-3);
  });
});

describe('the same classifier as a GGUF file', () => {
  it.each([
    ['bert', 'bert', { pooling_type: 4 }],
    [
      'modernbert',
      'modern-bert',
      {
        pooling_type: 4,
        'classifier.pooling_type': 2,
        'attention.sliding_window': 16,
        'attention.sliding_window_pattern': 3,
        'rope.freq_base': 160_000,
        'rope.freq_base_swa': 10_000,
      },
    ],
  ] as const)('gives the outputs of HF transformers: %s', async (name, architecture, keys) => {
    const model = classifierModels[name] as (typeof classifierModels)[string];
    const opened = encoderAsGguf({ ...model, saved: model.config }, { architecture, keys });
    const { outputs } = await classifierOutputs(createReferenceBackend, model, opened);
    expect(largestDifference(model.outputs, outputs)).toBeLessThan(TOLERANCE);
  });

  it('names its labels, and the prompt of a query and a document', () => {
    const spec = { hiddenSize: 2, layers: [] } as unknown as ModelSpec;
    const metadata = new Map<string, GgufValue>([
      ['general.architecture', 'qwen3'],
      ['qwen3.pooling_type', 4],
      ['qwen3.classifier.output_labels', ['yes', 'no']],
      ['tokenizer.chat_template.rerank', 'Is {document} about {query}?'],
    ]);
    const weights = memoryWeights([floatTensor('cls.output.weight', [2, 2], Float32Array.of(1, 2, 3, 4))]);
    const opened: OpenedModel = { format: 'gguf', path: 'm.gguf', version: 3, metadata, weights };
    expect(modelClassifier(opened, spec)).toEqual({
      pooling: 'last',
      labels: ['yes', 'no'],
      activation: 'softmax',
      pairs: { kind: 'template', template: 'Is {document} about {query}?' },
    });
  });
});
