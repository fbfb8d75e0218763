// How config.json says an MLX model is quantized: one setting for all modules, overridden by module path.

import { isJsonObject, type JsonObject } from './json-file.ts';
import { ModelFileError, printable } from './model-file-error.ts';
import type { TensorType } from './tensor-type.ts';

export interface MlxGrouping {
  readonly bits: 4 | 8;
  readonly groupSize: 32 | 64 | 128;
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
  const merged = isJsonObject(override) ? { ...settings, ...override } : settings;
  const { bits, group_size: groupSize, mode = 'affine' } = merged;
  if (mode !== 'affine') throw fault(configPath, `${field}.mode`, `${shown(mode)} is not supported`);
  if (bits !== 4 && bits !== 8) throw fault(configPath, `${field}.bits`, `${shown(bits)} is not supported`);
  if (groupSize !== 32 && groupSize !== 64 && groupSize !== 128) {
    throw fault(configPath, `${field}.group_size`, `${shown(groupSize)} is not supported`);
  }
  return { bits, groupSize, type: `MLX${bits}_G${groupSize}` };
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
    remedy: 'Use a model quantized by MLX in affine mode with 4 or 8 bits in groups of 32, 64 or 128.',
  });
}
