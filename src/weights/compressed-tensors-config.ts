// Settings of compressed-tensors (llm-compressor) in config.json. The parts of a module show its group of settings.

import { readBlock, type ScaleBlock } from './fp8.ts';
import type { CodeBits } from './integer-matrix.ts';
import { isJsonObject, type JsonObject } from './json-file.ts';
import { refuseSetting, requireSetting, SETTINGS, shown } from './quantization-settings.ts';

export interface IntegerScheme {
  readonly bits: CodeBits;
  /** Undefined: one group for all inputs. */
  readonly groupSize: number | undefined;
  readonly symmetric: boolean;
}

export interface CompressedSettings {
  readonly integers: readonly IntegerScheme[];
  /** For FP8 with scales per block. */
  readonly block: ScaleBlock | undefined;
}

const formats: readonly unknown[] = [
  undefined,
  null,
  'dense',
  'float-quantized',
  'int-quantized',
  'naive-quantized',
  'pack-quantized',
  'nvfp4-pack-quantized',
  'mxfp4-pack-quantized',
  'mixed-precision',
];
const integerBits: readonly unknown[] = [2, 3, 4, 5, 6, 8];

export function compressedSettings(settings: JsonObject, configPath: string): CompressedSettings {
  requireSetting(settings, 'format', formats, configPath);
  refuseSparse(settings.sparsity_config, configPath);
  refuseTransforms(settings.transform_config, configPath);
  const groups = isJsonObject(settings.config_groups) ? Object.entries(settings.config_groups) : [];
  if (groups.length === 0) throw refuseSetting(configPath, 'config_groups', 'names no group of weights');
  const integers: IntegerScheme[] = [];
  let block: ScaleBlock | undefined;
  for (const [name, group] of groups) {
    const field = `config_groups.${name}`;
    if (!isJsonObject(group))
      throw refuseSetting(configPath, field, `${shown(group)} is no group of settings`);
    if (!formats.includes(group.format)) {
      throw refuseSetting(configPath, `${field}.format`, `${shown(group.format)} is not supported`);
    }
    // A group may concern activations alone.
    if (group.weights === null) continue;
    const weights = isJsonObject(group.weights) ? group.weights : {};
    const { type, num_bits: bits } = weights;
    if (type === 'int' && integerBits.includes(bits)) {
      integers.push(integerScheme(weights, `${field}.weights`, configPath));
    } else if (type !== 'float' || (bits !== 8 && bits !== 4)) {
      const problem = `${shown(bits)} bits of the type ${shown(type)} are not supported`;
      throw refuseSetting(configPath, `${field}.weights`, problem);
    }
    block ??= readBlock(weights.block_structure, configPath, `${SETTINGS}.${field}.weights.block_structure`);
  }
  return { integers, block };
}

function integerScheme(
  { num_bits: bits, group_size: size, symmetric = true }: JsonObject,
  field: string,
  configPath: string,
): IntegerScheme {
  const whole = size === undefined || size === null || size === -1;
  if (!whole && !(Number.isSafeInteger(size) && (size as number) > 0)) {
    throw refuseSetting(configPath, `${field}.group_size`, `${shown(size)} is no size of groups`);
  }
  return {
    bits: bits as CodeBits,
    groupSize: whole ? undefined : (size as number),
    symmetric: symmetric !== false,
  };
}

function refuseSparse(sparsity: unknown, configPath: string): void {
  const format = isJsonObject(sparsity) ? sparsity.format : undefined;
  if (format === undefined || format === null || format === 'dense') return;
  throw refuseSetting(configPath, 'sparsity_config.format', `${shown(format)} is not supported`);
}

/** Rotations of activations at run time; those merged into the weights are not listed. */
function refuseTransforms(transforms: unknown, configPath: string): void {
  const groups = isJsonObject(transforms) ? transforms.config_groups : undefined;
  if (!isJsonObject(groups) || Object.keys(groups).length === 0) return;
  throw refuseSetting(
    configPath,
    'transform_config',
    'asks for rotated activations, which are not supported',
  );
}
