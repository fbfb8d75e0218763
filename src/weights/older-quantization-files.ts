// Before config.json had a `quantization_config`, quantizers wrote a file of their own beside it: auto-gptq
// quantize_config.json, AutoAWQ quant_config.json. Many published models still have nothing else.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type JsonObject, readJsonFile } from './json-file.ts';

const GPTQ_FILE = 'quantize_config.json';
const AWQ_FILE = 'quant_config.json';

interface ConfigWithQuantization {
  readonly config: JsonObject;
  /** The file that says how weights were quantized: errors name it. */
  readonly path: string;
}

/** config.json, with what an older file says of quantization where it says nothing itself. */
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

/** AutoAWQ calls its settings otherwise there. */
function awqSettings({ w_bit: bits, q_group_size: groupSize, ...others }: JsonObject): JsonObject {
  return { quant_method: 'awq', bits, group_size: groupSize, ...others };
}
