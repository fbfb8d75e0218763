// Which reader the weights of a safetensors model need: config.json says how they were quantized.

import { isJsonObject, type JsonObject } from './json-file.ts';
import { mlxWeights } from './mlx.ts';
import { isMlxConfig } from './mlx-config.ts';
import { ModelFileError, printable } from './model-file-error.ts';
import { mxfp4Weights } from './mxfp4.ts';
import { floatWeights, type Safetensors } from './safetensors.ts';
import type { WeightSource } from './weight-source.ts';

/** Opens the weights of a model by its config.json. */
export type OpenWeights = (model: Safetensors) => WeightSource;

/** Throws where the method is not known, before any file of weights is opened. */
export function weightsOpener(config: JsonObject, configPath: string): OpenWeights {
  if (isMlxConfig(config)) return (model) => mlxWeights(model, config, configPath);
  const settings = config.quantization_config;
  const method = isJsonObject(settings) ? settings.quant_method : undefined;
  switch (method) {
    case undefined:
      return floatWeights;
    case 'mxfp4':
      return mxfp4Weights;
    default:
      throw new ModelFileError({
        file: configPath,
        field: 'quantization_config.quant_method',
        problem: `${printable(JSON.stringify(method))} is not supported`,
        remedy: 'Use the unquantized model, one in MXFP4, an MLX-quantized one (4 or 8 bit), or a GGUF.',
      });
  }
}
