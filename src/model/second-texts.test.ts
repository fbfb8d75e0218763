import { expect, it } from 'vitest';
import { classifierModels } from '../../test/support/classifier-models.ts';
import { asFolder } from '../../test/support/formula-model.ts';
import { readFloatRows, readFloats } from '../weights/weight-source.ts';
import { buildSpec } from './build-spec.ts';
import { hasSecondTexts, withSecondTexts } from './second-texts.ts';

const open = (name: string) => {
  const opened = asFolder(classifierModels[name] as (typeof classifierModels)[string]);
  return { opened, spec: buildSpec(opened) };
};

it('gives the second text rows of its own, after those of the first', () => {
  const { opened, spec: before } = open('bert');
  const { spec, weights } = withSecondTexts(before, opened.weights);
  const { vocabSize, hiddenSize } = before;
  expect(spec.vocabSize).toBe(2 * vocabSize);
  expect(hasSecondTexts(spec)).toBe(true);
  const words = readFloats(opened.weights, before.embedding.tensor);
  const kinds = readFloats(opened.weights, before.textKinds?.tensor ?? '');
  const both = readFloats(weights, spec.embedding.tensor);
  expect(both.subarray(0, words.length)).toEqual(words);
  for (const at of [0, 7, words.length - 1]) {
    const column = at % hiddenSize;
    const added = (kinds[hiddenSize + column] as number) - (kinds[column] as number);
    expect(both[words.length + at]).toBeCloseTo((words[at] as number) + added, 6);
  }
  // Rows on both sides of the border, and none outside.
  const border = readFloatRows(weights, spec.embedding.tensor, vocabSize - 1, 2);
  expect(border).toEqual(both.slice((vocabSize - 1) * hiddenSize, (vocabSize + 1) * hiddenSize));
  expect(() => readFloatRows(weights, spec.embedding.tensor, 2 * vocabSize - 1, 2)).toThrow('has no 2 rows');
  expect(readFloats(weights, before.embedding.tensor)).toEqual(words);
});

it('leaves models alone that know one kind of text, or none', () => {
  for (const name of ['modernbert', 'qwen3']) {
    const { opened, spec } = open(name);
    expect(withSecondTexts(spec, opened.weights)).toEqual({ spec, weights: opened.weights });
  }
});
