// The weights of a vision tower with those of its model: in a folder they lie together; a GGUF has a projector file (mmproj)
// beside it. Kernels of convolutions are also listed as matrices, which is what they are to a picture cut into patches.

import { readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { type GgufFile, openGguf } from './gguf.ts';
import { ModelFileError, printable } from './model-file-error.ts';
import { isProjectorName, type OpenedModel } from './open-model.ts';
import { rowBytes } from './tensor-type.ts';
import { columnsOf, joinedWeights, type TensorInfo, type WeightSource } from './weight-source.ts';

export interface VisionFiles {
  /** Absent where the tower lies in the model's own folder. */
  readonly projector?: GgufFile;
  /** Of the model and the tower; closing them closes all files. */
  readonly weights: WeightSource;
}

/** `projectorPath`: of a GGUF; default: the one beside the model. */
export function openVisionFiles(model: OpenedModel, projectorPath?: string): VisionFiles {
  if (model.format !== 'gguf') return { weights: withKernelMatrices(model.weights) };
  const path = projectorPath ?? projectorBeside(model.path);
  if (path === undefined) {
    throw new ModelFileError({
      file: model.path,
      field: 'mmproj',
      problem: 'has no vision tower, and no projector file (mmproj) lies beside it',
      remedy: 'Download the projector file of this model into the same folder.',
    });
  }
  const projector = openGguf(path);
  const weights = withKernelMatrices(joinedWeights(model.weights, projector.weights));
  return { projector, weights };
}

function projectorBeside(model: string): string | undefined {
  const directory = dirname(model);
  const names = readdirSync(directory).filter((name) => isProjectorName(name) && name !== basename(model));
  if (names.length > 1) {
    throw new ModelFileError({
      file: directory,
      field: 'mmproj',
      problem: `holds several projector files: ${printable(names.sort().join(', '))}`,
      remedy: 'Leave one of them in the folder.',
    });
  }
  const [name] = names;
  return name === undefined ? undefined : join(directory, name);
}

const suffix = ' as a matrix';

/** The name under which a kernel is listed as a matrix: a row for each output. */
export function kernelMatrix(name: string): string {
  return name + suffix;
}

function withKernelMatrices(weights: WeightSource): WeightSource {
  const kernels = [...weights.tensors.values()].filter(({ shape }) => shape.length >= 4);
  const matrices = new Map(kernels.map((kernel) => [kernelMatrix(kernel.name), kernel]));
  const listed = [...matrices].map(
    ([name, kernel]) => [name, { ...kernel, name, shape: flat(kernel) }] as const,
  );
  return {
    tensors: new Map<string, TensorInfo>([...weights.tensors, ...listed]),
    readRows(name, first, count, into) {
      const kernel = matrices.get(name);
      if (kernel === undefined) return weights.readRows(name, first, count, into);
      const inner = innerSize(kernel) / columnsOf(kernel);
      if (into.length !== count * inner * rowBytes(kernel.type, columnsOf(kernel))) {
        throw new RangeError(`${name} has no ${count} rows of ${into.length} bytes in all`);
      }
      weights.readRows(kernel.name, first * inner, count * inner, into);
    },
    close: () => weights.close(),
  };
}

function flat(kernel: TensorInfo): readonly number[] {
  return [kernel.shape[0] ?? 1, innerSize(kernel)];
}

function innerSize({ shape }: TensorInfo): number {
  return shape.slice(1).reduce((product, size) => product * size, 1);
}
