// Linear maps of a text's vector, once it is pooled: what sentence-transformers calls Dense, which lie in folders of their own or with
// the layers of a GGUF file; or the head of a classifier.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { readJsonFile } from '../weights/json-file.ts';
import { ModelFileError } from '../weights/model-file-error.ts';
import type { OpenedModel } from '../weights/open-model.ts';
import { floatWeights, openSafetensors } from '../weights/safetensors.ts';
import { columnsOf, readFloats, rowsOf, type WeightSource } from '../weights/weight-source.ts';
import { curves } from './activation-curves.ts';
import { modulesOf } from './modules.ts';

type DenseActivation = 'none' | 'tanh' | 'relu' | keyof typeof curves;

interface DenseShape {
  readonly rows: number;
  readonly columns: number;
  readonly activation: DenseActivation;
}

export interface DenseLayer extends DenseShape {
  readonly weight: Float32Array;
  readonly bias: Float32Array | undefined;
  /** A layer norm after the activation. */
  readonly norm?: DenseNorm | undefined;
}

interface DenseNorm {
  readonly weight: Float32Array;
  readonly bias: Float32Array | undefined;
  readonly epsilon: number;
}

interface DenseSource {
  readonly file: string;
  readonly weights: WeightSource;
  readonly name: string;
  readonly activation: DenseActivation;
}

export function denseShapes(opened: OpenedModel): DenseShape[] {
  return eachSource(opened, shapeOf);
}

export function readDenseLayers(opened: OpenedModel): DenseLayer[] {
  return eachSource(opened, (source) => {
    const { weights, name } = source;
    const shape = shapeOf(source);
    const bias = `${name}.bias`;
    return {
      ...shape,
      weight: readFloats(weights, `${name}.weight`),
      bias: weights.tensors.has(bias) ? readFloats(weights, bias) : undefined,
    };
  });
}

/** One after the other, each of the vector that the one before gives; sums in double precision. */
export function applyDense(layers: readonly DenseLayer[], vector: Float32Array): Float32Array {
  return layers.reduce((input, { rows, columns, weight, bias, activation, norm }) => {
    const curve = denseCurves[activation];
    const output = new Float32Array(rows);
    for (let row = 0; row < rows; row++) {
      let sum = bias?.[row] ?? 0;
      const at = row * columns;
      for (let i = 0; i < columns; i++) sum += (weight[at + i] as number) * (input[i] as number);
      output[row] = curve(sum);
    }
    return norm === undefined ? output : layerNorm(output, norm);
  }, vector);
}

const denseCurves: Readonly<Record<DenseActivation, (value: number) => number>> = {
  ...curves,
  none: (value) => value,
  tanh: Math.tanh,
  relu: (value) => Math.max(0, value),
};

function layerNorm(values: Float32Array, { weight, bias, epsilon }: DenseNorm): Float32Array {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
  const scale = 1 / Math.sqrt(variance + epsilon);
  return values.map((value, at) => (value - mean) * scale * (weight[at] as number) + (bias?.[at] ?? 0));
}

function eachSource<Result>(opened: OpenedModel, read: (source: DenseSource) => Result): Result[] {
  if (opened.format === 'gguf') {
    const { path: file, weights } = opened;
    return ['dense_2', 'dense_3']
      .filter((name) => weights.tensors.has(`${name}.weight`))
      .map((name) => read({ file, weights, name, activation: 'none' }));
  }
  const modules = modulesOf(opened.directory) ?? [];
  return modules
    .filter(({ kind }) => kind === 'Dense')
    .map(({ directory }) => {
      const activation = activationIn(join(directory, 'config.json'));
      const file = join(directory, 'model.safetensors');
      if (!existsSync(file)) {
        const remedy = 'Download it into the folder.';
        throw new ModelFileError({ file, field: 'linear.weight', problem: 'the file is missing', remedy });
      }
      const weights = floatWeights(openSafetensors(file, [file]));
      try {
        return read({ file, weights, name: 'linear', activation });
      } finally {
        weights.close();
      }
    });
}

const activations: Readonly<Record<string, DenseActivation>> = { Identity: 'none', Tanh: 'tanh' };

/** Named by its class; the library's own default is the hyperbolic tangent. */
function activationIn(file: string): DenseActivation {
  const field = 'activation_function';
  const name = String(readJsonFile(file)[field] ?? 'Tanh')
    .split('.')
    .at(-1);
  const activation = activations[name ?? ''];
  if (activation !== undefined) return activation;
  const remedy = `Use a model with one of: ${Object.keys(activations).join(', ')}.`;
  throw new ModelFileError({ file, field, problem: `${JSON.stringify(name)} is not supported`, remedy });
}

function shapeOf({ file, weights, name, activation }: DenseSource): DenseShape {
  const weight = weights.tensors.get(`${name}.weight`);
  const bias = weights.tensors.get(`${name}.bias`);
  const rows = weight === undefined ? 0 : rowsOf(weight);
  const fits = weight?.shape.length === 2 && (bias === undefined || columnsOf(bias) === rows);
  if (weight !== undefined && fits) return { rows, columns: columnsOf(weight), activation };
  throw new ModelFileError({
    file,
    field: `${name}.weight`,
    problem:
      weight === undefined ? 'the tensor is missing' : 'has a shape that is no linear map with its bias',
    remedy: 'The file is damaged or of another kind; download it again.',
  });
}
