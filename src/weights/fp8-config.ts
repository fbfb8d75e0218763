// How config.json says a model in floats of eight bits is scaled. Several tools write such models, each its own settings.

import type { ScaleBlock } from './fp8.ts';
import type { JsonObject } from './json-file.ts';
import { ModelFileError, printable } from './model-file-error.ts';

const FIELD = 'quantization_config';

/** Methods whose weights may be floats of eight bits. */
export const fp8Methods: readonly unknown[] = ['fp8', 'fbgemm_fp8', 'modelopt'];

/** The blocks that share a scale, where there are any. Throws where something else than floats of eight bits is meant. */
export function fp8Block(settings: JsonObject, configPath: string): ScaleBlock | undefined {
  switch (settings.quant_method) {
    case 'modelopt':
      if (settings.quant_algo === 'FP8') return undefined;
      throw fault(configPath, `${FIELD}.quant_algo`, `${shown(settings.quant_algo)} is not supported`);
    default:
      return readBlock(settings.weight_block_size, configPath, `${FIELD}.weight_block_size`);
  }
}

export function readBlock(value: unknown, configPath: string, field: string): ScaleBlock | undefined {
  if (value === undefined || value === null) return undefined;
  const isSize = (size: unknown) => Number.isSafeInteger(size) && (size as number) > 0;
  if (Array.isArray(value) && value.length === 2 && value.every(isSize)) {
    return { rows: value[0], columns: value[1] };
  }
  throw fault(configPath, field, `${shown(value)} is not a pair of sizes`);
}

function shown(value: unknown): string {
  return value === undefined ? 'no value' : printable(JSON.stringify(value));
}

function fault(file: string, field: string, problem: string): ModelFileError {
  const remedy = 'Use the model in FP8 as its makers publish it, the unquantized one, or a GGUF.';
  return new ModelFileError({ file, field, problem, remedy });
}
