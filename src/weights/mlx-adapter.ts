// Adapters of `mlx_lm.lora`: adapter_config.json has the training settings, matrices are transposed.

import { isJsonObject, type JsonObject } from './json-file.ts';
import { ModelFileError, printable } from './model-file-error.ts';
import { rowBytes } from './tensor-type.ts';
import { columnsOf, requireTensor, rowsOf, type TensorInfo, type WeightSource } from './weight-source.ts';

export interface NamedPart {
  readonly target: string;
  readonly side: 'down' | 'up' | 'magnitude' | 'base';
  readonly embedding?: EmbeddingSides;
}

export interface EmbeddingSides {
  /** `down` has a row per token. */
  readonly byToken: boolean;
  /** Also applies to a tied head. */
  readonly tied: boolean;
}

/** PEFT names its method instead. */
export function isMlxAdapter(config: JsonObject): boolean {
  return (
    config.peft_type === undefined && (isJsonObject(config.lora_parameters) || 'fine_tune_type' in config)
  );
}

interface MlxAdapterSettings {
  /** mlx-lm does not divide it by the rank. */
  readonly scale: number;
  readonly hasMagnitudes: boolean;
}

export function mlxSettings(file: string, config: JsonObject): MlxAdapterSettings {
  const { fine_tune_type: kind = config.use_dora === true ? 'dora' : 'lora' } = config;
  if (kind !== 'lora' && kind !== 'dora') {
    throw fault(file, 'fine_tune_type', `${printable(JSON.stringify(kind))} is not supported`);
  }
  const scale = isJsonObject(config.lora_parameters) ? config.lora_parameters.scale : undefined;
  if (typeof scale === 'number' && Number.isFinite(scale) && scale > 0)
    return { scale, hasMagnitudes: kind === 'dora' };
  const problem = scale === undefined ? 'is missing' : 'must be a positive number';
  throw fault(file, 'lora_parameters.scale', problem);
}

const sides = { lora_a: 'down', lora_b: 'up', m: 'magnitude' } as const;

export function mlxPart(name: string): NamedPart | undefined {
  const [, module, ending] = /^(.+)\.(lora_a|lora_b|m)$/.exec(name) ?? [];
  if (module === undefined) return undefined;
  return {
    target: `${module}.weight`,
    side: sides[ending as keyof typeof sides],
    // Tables are transposed like matrices; a tied head uses the result.
    ...(/(?:^|\.)embed_tokens$/.test(module) ? { embedding: { byToken: false, tied: true } } : {}),
  };
}

function fault(file: string, field: string, problem: string): ModelFileError {
  const remedy = 'Merge the adapter into its model with mlx_lm.fuse, or train LoRA or DoRA.';
  return new ModelFileError({ file, field, problem, remedy });
}

/** Transposes small matrices, which are read whole for each piece; vectors stay as they are. */
export function turnedWeights(stored: WeightSource): WeightSource {
  const turn = (tensor: TensorInfo): TensorInfo =>
    isMatrix(tensor) ? { ...tensor, shape: tensor.shape.toReversed() } : tensor;
  return {
    tensors: new Map([...stored.tensors].map(([name, tensor]) => [name, turn(tensor)])),
    readRows(name, first, count, into) {
      const tensor = requireTensor(stored, name);
      if (!isMatrix(tensor)) stored.readRows(name, first, count, into);
      else readColumns(stored, tensor, first, count, into);
    },
    close: () => stored.close(),
  };
}

const isMatrix = ({ shape }: TensorInfo): boolean => shape.length === 2;

function readColumns(
  stored: WeightSource,
  tensor: TensorInfo,
  first: number,
  count: number,
  into: Uint8Array,
): void {
  const [rows, columns, bytes] = [rowsOf(tensor), columnsOf(tensor), rowBytes(tensor.type, 1)];
  if (first < 0 || count < 0 || first + count > columns || into.length !== count * rows * bytes) {
    throw new RangeError(`rows ${first} to ${first + count} of ${tensor.name} do not fit`);
  }
  const values = new Uint8Array(rows * columns * bytes);
  stored.readRows(tensor.name, 0, rows, values);
  for (let column = 0, to = 0; column < count; column++) {
    for (let row = 0; row < rows; row++, to += bytes) {
      const at = (row * columns + first + column) * bytes;
      for (let byte = 0; byte < bytes; byte++) into[to + byte] = values[at + byte] as number;
    }
  }
}
