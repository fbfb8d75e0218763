// Chooses the reader of a safetensors model's weights by the quantization settings.

import { awqGroupSize, awqWeights } from './awq.ts';
import { bitsAndBytesWeights, checkBitsAndBytes } from './bitsandbytes.ts';
import { compressedWeights } from './compressed-tensors.ts';
import { compressedSettings } from './compressed-tensors-config.ts';
import { fp8Block, fp8Methods, fp8Weights } from './fp8.ts';
import { gptqSettings, gptqWeights } from './gptq.ts';
import { isJsonObject, type JsonObject } from './json-file.ts';
import { isMlxConfig, mlxWeights } from './mlx.ts';
import { ModelFileError, printable } from './model-file-error.ts';
import { mxfp4Weights } from './mxfp4.ts';
import { floatWeights, type Safetensors } from './safetensors.ts';
import type { WeightSource } from './weight-source.ts';

type OpenWeights = (model: Safetensors) => WeightSource;

/** Throws for an unknown method before any weights are opened. */
export function weightsOpener(config: JsonObject, configPath: string): OpenWeights {
  if (isMlxConfig(config)) return (model) => mlxWeights(model, config, configPath);
  const settings = config.quantization_config;
  if (!isJsonObject(settings) || settings.quant_method === undefined) return floatWeights;
  const { quant_method: method } = settings;
  if (method === 'mxfp4') return mxfp4Weights;
  if (fp8Methods.includes(method)) {
    const block = fp8Block(settings, configPath);
    return (model) => fp8Weights(model, block);
  }
  if (method === 'compressed-tensors') {
    const compressed = compressedSettings(settings, configPath);
    return (model) => compressedWeights(model, compressed);
  }
  if (method === 'bitsandbytes') {
    checkBitsAndBytes(settings, configPath);
    return bitsAndBytesWeights;
  }
  if (method === 'gptq') {
    const gptq = gptqSettings(settings, configPath);
    return (model) => gptqWeights(model, gptq);
  }
  if (method === 'awq') {
    const groupSize = awqGroupSize(settings, configPath);
    return (model) => awqWeights(model, groupSize);
  }
  throw new ModelFileError({
    file: configPath,
    field: 'quantization_config.quant_method',
    problem: `${printable(JSON.stringify(method))} is not supported`,
    remedy: 'Use the unquantized model, one quantized in a way that docs/models.md lists, or a GGUF.',
  });
}
