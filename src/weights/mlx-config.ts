// How config.json says an MLX model is quantized: one setting for all modules, overridden by module path.

import { isJsonObject, type JsonObject } from './json-file.ts';
import { ModelFileError, printable } from './model-file-error.ts';
import type { TensorType } from './tensor-type.ts';

interface Mode {
  readonly bits: readonly unknown[];
  readonly groupSizes: readonly unknown[];
  /** Where it does not hang on bits and groups. */
  readonly type?: TensorType;
}

const modes: ReadonlyMap<unknown, Mode> = new Map<unknown, Mode>([
  ['affine', { bits: [2, 3, 4, 5, 6, 8], groupSizes: [32, 64, 128] }],
  ['mxfp4', { bits: [4], groupSizes: [32], type: 'MXFP4' }],
  ['nvfp4', { bits: [4], groupSizes: [16], type: 'NVFP4' }],
  ['mxfp8', { bits: [8], groupSizes: [32], type: 'F8_G32' }],
]);

/** How a module's values lie: packed integers with scales and biases, or floats of four or eight bits with scales. */
export interface MlxGrouping {
  readonly bits: number;
  readonly groupSize: number;
  readonly type: TensorType;
}

/** MLX writes its settings without naming a method; other quantizers name theirs. */
export function isMlxConfig(config: JsonObject): boolean {
  return mlxSettings(config) !== undefined;
}

/** The grouping of one quantized module, e.g. `model.layers.0.self_attn.q_proj`. */
export function mlxGrouping(config: JsonObject, configPath: string, module: string): MlxGrouping {
  const settings = mlxSettings(config) ?? {};
  const override = Object.hasOwn(settings, module) ? settings[module] : undefined;
  if (override === false) {
    throw fault(configPath, `quantization.${module}`, 'is false, but the module has scales');
  }
  const field = isJsonObject(override) ? `quantization.${module}` : 'quantization';
  const own = isJsonObject(override) ? override : settings;
  // MLX takes a module's settings whole: where they name no mode, it is not that of the others.
  const { bits, group_size: groupSize } = { ...settings, ...own };
  const { mode = 'affine' } = own;
  const known = modes.get(mode);
  if (known === undefined) throw fault(configPath, `${field}.mode`, `${shown(mode)} is not supported`);
  if (!known.bits.includes(bits)) throw fault(configPath, `${field}.bits`, `${shown(bits)} is not supported`);
  if (!known.groupSizes.includes(groupSize)) {
    throw fault(configPath, `${field}.group_size`, `${shown(groupSize)} is not supported`);
  }
  const type = known.type ?? `MLX${bits}_G${groupSize}`;
  return { bits, groupSize, type } as MlxGrouping;
}

function mlxSettings(config: JsonObject): JsonObject | undefined {
  for (const settings of [config.quantization, config.quantization_config]) {
    if (isJsonObject(settings) && settings.quant_method === undefined && settings.bits !== undefined) {
      return settings;
    }
  }
  return undefined;
}

function shown(value: unknown): string {
  return value === undefined ? 'no value' : printable(JSON.stringify(value));
}

function fault(file: string, field: string, problem: string): ModelFileError {
  return new ModelFileError({
    file,
    field,
    problem,
    remedy:
      'Use a model quantized by MLX with 2 to 6 or 8 bits in groups of 32, 64 or 128, or in its modes mxfp4, nvfp4 and mxfp8.',
  });
}
