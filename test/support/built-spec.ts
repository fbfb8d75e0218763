// Specs of formula models, whole and damaged.

import { buildSpec } from '../../src/model/build-spec.ts';
import { ModelFileError } from '../../src/weights/model-file-error.ts';
import type { OpenedModel } from '../../src/weights/open-model.ts';
import { asFolder, type FormulaTensor, formulaModel } from './formula-model.ts';
import { floatTensor, memoryWeights } from './memory-weights.ts';

export type Fields = Readonly<Record<string, unknown>>;

/** Of a formula model with some fields of its configuration changed. */
export const specOf = (name: string, change: Fields = {}) => {
  const model = formulaModel(name);
  return buildSpec(asFolder(model, { ...model.config, ...change }));
};

/** What a file is refused for. */
export function faultOf(build: () => unknown) {
  try {
    build();
  } catch (error) {
    if (error instanceof ModelFileError) return error.fault;
    throw error;
  }
  throw new Error('no error was thrown');
}

export function withTensors(name: string, tensors: readonly FormulaTensor[]): OpenedModel {
  const weights = memoryWeights(tensors.map((one) => floatTensor(one.name, one.shape, one.values)));
  return { ...asFolder(formulaModel(name)), weights } as OpenedModel;
}
