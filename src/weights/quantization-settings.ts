// Quantization settings of config.json or an older file, and errors about them.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type JsonObject, readJsonFile } from './json-file.ts';
import { ModelFileError, printable } from './model-file-error.ts';

export const SETTINGS = 'quantization_config';

export function shown(value: unknown): string {
  return value === undefined ? 'no value' : printable(JSON.stringify(value));
}

export function refuseSetting(
  file: string,
  field: string,
  problem: string,
  remedy = 'Use the unquantized model, one quantized in a way that docs/models.md lists, or a GGUF.',
): ModelFileError {
  return new ModelFileError({ file, field: `${SETTINGS}.${field}`, problem, remedy });
}

/** Throws for other values; `undefined` in the list allows absence. */
export function requireSetting(
  settings: Readonly<Record<string, unknown>>,
  field: string,
  known: readonly unknown[],
  configPath: string,
): void {
  if (known.includes(settings[field])) return;
  throw refuseSetting(configPath, field, `${shown(settings[field])} is not supported`);
}

const GPTQ_FILE = 'quantize_config.json';
const AWQ_FILE = 'quant_config.json';

interface ConfigWithQuantization {
  readonly config: JsonObject;
  readonly path: string;
}

/**
 * config.json, completed by quantize_config.json (auto-gptq) or quant_config.json (AutoAWQ): many published models
 * have only these.
 */
export function withQuantizationFile(directory: string, configPath: string): ConfigWithQuantization {
  const config = readJsonFile(configPath);
  if ((config.quantization_config ?? config.quantization) !== undefined) return { config, path: configPath };
  for (const [name, settingsOf] of [
    [GPTQ_FILE, gptqSettings],
    [AWQ_FILE, awqSettings],
  ] as const) {
    const path = join(directory, name);
    if (!existsSync(path)) continue;
    return { config: { ...config, quantization_config: settingsOf(readJsonFile(path)) }, path };
  }
  return { config, path: configPath };
}

function gptqSettings(settings: JsonObject): JsonObject {
  return { quant_method: 'gptq', ...settings };
}

function awqSettings({ w_bit: bits, q_group_size: groupSize, ...others }: JsonObject): JsonObject {
  return { quant_method: 'awq', bits, group_size: groupSize, ...others };
}
